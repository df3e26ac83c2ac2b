// `URL`, `URLSearchParams` and `Buffer`, made when a program first names one of them: reading this text at the start of
// each program would cost more than most programs do. `native` has what Rust's `url` does.
(native) => {
  "use strict";
  const PARTS = ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

  // Half a character has no bytes in UTF-8; addresses take U+FFFD for it.
  const wellFormed = (value) => String(value).toWellFormed();

  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        const listed = typeof init[Symbol.iterator] === "function";
        for (const pair of listed ? init : Object.entries(init)) {
          const [name, value, ...rest] = pair;
          if (value === undefined || rest.length > 0) throw new TypeError("each query pair must be a name and a value");
          this.#pairs.push([wellFormed(name), wellFormed(value)]);
        }
      } else this.#read(init);
    }
    // The parameters of a URL, which changes with them.
    static of(url, changed) {
      const made = new URLSearchParams(url.search);
      made.#changed = changed;
      return made;
    }
    static read(params, search) {
      params.#read(search);
    }
    #read(search) {
      const text = wellFormed(search);
      this.#pairs = JSON.parse(native.pairs(text.startsWith("?") ? text.slice(1) : text));
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      this.#pairs.push([wellFormed(name), wellFormed(value)]);
      this.#changed(this);
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(
        ([key, held]) => key !== String(name) || (value !== undefined && held !== String(value)),
      );
      this.#changed(this);
    }
    get(name) {
      return this.#pairs.find(([key]) => key === String(name))?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value);
    }
    has(name, value) {
      return this.#pairs.some(([key, held]) => key === String(name) && (value === undefined || held === String(value)));
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([key]) => key === String(name));
      const pair = [wellFormed(name), wellFormed(value)];
      if (at < 0) this.#pairs.push(pair);
      else this.#pairs = this.#pairs.filter(([key], place) => place <= at || key !== pair[0]).with(at, pair);
      this.#changed(this);
    }
    sort() {
      this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
      this.#changed(this);
    }
    forEach(visit, self) {
      for (const [name, value] of this) visit.call(self, value, name, this);
    }
    *entries() {
      for (let at = 0; at < this.#pairs.length; at++) yield [...this.#pairs[at]];
    }
    *keys() {
      for (const [name] of this.entries()) yield name;
    }
    *values() {
      for (const [, value] of this.entries()) yield value;
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return native.query(JSON.stringify(this.#pairs));
    }
    get [Symbol.toStringTag]() {
      return "URLSearchParams";
    }
  }
  const { of, read } = URLSearchParams;
  delete URLSearchParams.of;
  delete URLSearchParams.read;

  class URL {
    #parts;
    #params;
    constructor(url, base) {
      const parts = native.parse(wellFormed(url), base === undefined ? undefined : wellFormed(base));
      if (parts === undefined) throw new TypeError(`Invalid URL: ${String(url).slice(0, 200)}`);
      this.#parts = JSON.parse(parts);
    }
    static canParse(url, base) {
      return URL.parse(url, base) !== null;
    }
    static parse(url, base) {
      try {
        return new URL(url, base);
      } catch {
        return null;
      }
    }
    static part(url, name) {
      return url.#parts[name];
    }
    static change(url, name, value) {
      const parts = native.set(url.#parts.href, name, wellFormed(value));
      if (parts === undefined) throw new TypeError(`Invalid URL: ${String(value).slice(0, 200)}`);
      url.#parts = JSON.parse(parts);
      if (url.#params !== undefined && (name === "search" || name === "href")) read(url.#params, url.#parts.search);
    }
    get origin() {
      return this.#parts.origin;
    }
    get searchParams() {
      this.#params ??= of(this, (params) => {
        this.#parts = JSON.parse(native.set(this.#parts.href, "search", params.toString()));
      });
      return this.#params;
    }
    toString() {
      return this.#parts.href;
    }
    toJSON() {
      return this.#parts.href;
    }
    get [Symbol.toStringTag]() {
      return "URL";
    }
  }
  const { part, change } = URL;
  delete URL.part;
  delete URL.change;
  for (const name of ["href", ...PARTS])
    Object.defineProperty(URL.prototype, name, {
      get() {
        return part(this, name);
      },
      set(value) {
        change(this, name, value);
      },
      enumerable: true,
      configurable: true,
    });

  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  function oneByte(text) {
    const bytes = new Uint8Array(text.length);
    for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
    return bytes;
  }
  // Each encoding of texts that Node.js knows: how a text becomes bytes, and the other way.
  const utf8 = [(text) => encoder.encode(text), (bytes) => decoder.decode(bytes)];
  const latin1 = [oneByte, (bytes) => characters(bytes, 255)];
  const utf16 = [
    (text) => {
      const bytes = new Uint8Array(text.length * 2);
      for (let at = 0; at < text.length; at++) {
        bytes[2 * at] = text.charCodeAt(at);
        bytes[2 * at + 1] = text.charCodeAt(at) >> 8;
      }
      return bytes;
    },
    (bytes) => {
      const parts = [];
      for (let at = 0; at + 1 < bytes.length; at += 2) parts.push(String.fromCharCode(bytes[at] | (bytes[at + 1] << 8)));
      return parts.join("");
    },
  ];
  const base64 = (alphabet) => [fromBase64, (bytes) => toBase64(bytes, alphabet)];
  const ENCODINGS = {
    __proto__: null,
    "utf8": utf8, "utf-8": utf8,
    "latin1": latin1, "binary": latin1,
    "ascii": [oneByte, (bytes) => characters(bytes, 127)],
    "hex": [fromHex, (bytes) => plain(bytes).toHex()],
    "base64": base64("base64"), "base64url": base64("base64url"),
    "utf16le": utf16, "utf-16le": utf16, "ucs2": utf16, "ucs-2": utf16,
  };
  function encoding(name = "utf8") {
    const known = ENCODINGS[String(name).toLowerCase()];
    if (known === undefined) throw new TypeError(`Unknown encoding: ${name}`);
    return known;
  }
  const plain = (bytes) => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  function characters(bytes, mask) {
    const parts = [];
    for (const byte of bytes) parts.push(String.fromCharCode(byte & mask));
    return parts.join("");
  }
  // Up to the first pair that is none, as in Node.js.
  function fromHex(text) {
    const pairs = /^(?:[0-9a-f]{2})*/i.exec(text)[0];
    return Uint8Array.fromHex(pairs);
  }
  // Both alphabets, without regard to what is in neither, as in Node.js.
  function fromBase64(text) {
    const end = text.indexOf("=");
    const digits = (end < 0 ? text : text.slice(0, end)).replace(/-/g, "+").replace(/_/g, "/").replace(/[^A-Za-z0-9+/]/g, "");
    return Uint8Array.fromBase64(digits.length % 4 === 1 ? digits.slice(0, -1) : digits);
  }
  function toBase64(bytes, alphabet) {
    return plain(bytes).toBase64({ alphabet, omitPadding: alphabet === "base64url" });
  }

  class Buffer extends Uint8Array {
    static from(value, how, length) {
      if (typeof value === "string") return viewed(encoding(how)[0](value));
      if (value instanceof ArrayBuffer) return new Buffer(value, how, length);
      if (value?.type === "Buffer" && Array.isArray(value.data)) return viewed(Uint8Array.from(value.data));
      if (typeof value === "object" && value !== null) return viewed(Uint8Array.from(value));
      throw new TypeError("Buffer.from takes a string, an array, a buffer or an ArrayBuffer");
    }
    static of(...bytes) {
      return Buffer.from(bytes);
    }
    static alloc(size, fill = 0, how = "utf8") {
      const made = new Buffer(size);
      return fill === 0 ? made : made.fill(fill, 0, size, how);
    }
    static allocUnsafe(size) {
      return new Buffer(size);
    }
    static isBuffer(value) {
      return value instanceof Buffer;
    }
    static isEncoding(name) {
      return typeof name === "string" && name.toLowerCase() in ENCODINGS;
    }
    static byteLength(value, how) {
      return typeof value === "string" ? encoding(how)[0](value).length : value.byteLength;
    }
    static concat(list, total = list.reduce((sum, one) => sum + one.length, 0)) {
      const made = new Buffer(total);
      let at = 0;
      for (const one of list) {
        const room = one.subarray(0, Math.max(total - at, 0));
        made.set(room, at);
        at += room.length;
      }
      return made;
    }
    static compare(one, other) {
      const length = Math.min(one.length, other.length);
      for (let at = 0; at < length; at++) if (one[at] !== other[at]) return one[at] < other[at] ? -1 : 1;
      return Math.sign(one.length - other.length);
    }
    toString(how, start = 0, end = this.length) {
      return encoding(how)[1](plain(this).subarray(start, end));
    }
    toJSON() {
      return { type: "Buffer", data: Array.from(this) };
    }
    equals(other) {
      return Buffer.compare(this, other) === 0;
    }
    compare(other) {
      return Buffer.compare(this, other);
    }
    // A part of the same bytes, unlike the method of arrays that it stands for.
    slice(start, end) {
      return this.subarray(start, end);
    }
    write(text, at = 0, how = "utf8") {
      const bytes = encoding(how)[0](String(text)).subarray(0, Math.max(this.length - at, 0));
      this.set(bytes, at);
      return bytes.length;
    }
    fill(value, start = 0, end = this.length, how = "utf8") {
      if (typeof value === "number") return super.fill(value, start, end);
      const bytes = typeof value === "string" ? encoding(how)[0](value) : value;
      if (bytes.length === 0) return super.fill(0, start, end);
      for (let at = start; at < end; at++) this[at] = bytes[(at - start) % bytes.length];
      return this;
    }
    indexOf(value, from = 0, how = "utf8") {
      if (typeof value === "number") return super.indexOf(value, from);
      const sought = typeof value === "string" ? encoding(how)[0](value) : value;
      for (let at = Math.max(from, 0); at + sought.length <= this.length; at++)
        if (sought.every((byte, place) => this[at + place] === byte)) return at;
      return -1;
    }
    includes(value, from, how) {
      return this.indexOf(value, from, how) >= 0;
    }
  }
  const viewed = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (const [name, kind, size] of [
    ["UInt8", "Uint8", 1], ["UInt16", "Uint16", 2], ["UInt32", "Uint32", 4], ["BigUInt64", "BigUint64", 8],
    ["Int8", "Int8", 1], ["Int16", "Int16", 2], ["Int32", "Int32", 4], ["BigInt64", "BigInt64", 8],
    ["Float", "Float32", 4], ["Double", "Float64", 8],
  ])
    for (const order of size === 1 ? [""] : ["LE", "BE"]) {
      Buffer.prototype[`read${name}${order}`] = function (at = 0) {
        return view(this)[`get${kind}`](at, order === "LE");
      };
      Buffer.prototype[`write${name}${order}`] = function (value, at = 0) {
        view(this)[`set${kind}`](at, value, order === "LE");
        return at + size;
      };
    }
  return { URL, URLSearchParams, Buffer };
}
