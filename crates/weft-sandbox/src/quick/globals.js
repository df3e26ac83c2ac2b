// What programs for Node.js and for browsers expect to find beside the language, as far as it needs nothing outside. `load`
// makes what is in `web.js`. Gives functions: how many milliseconds the next timer waits (-1 when there is none), one that
// lets it run, one that gathers what `main` gives one by one and later, one that writes what it gave as JSON, and one that
// says what it gave when the program called it itself.
(load) => {
  "use strict";
  const clock = Date.now;
  let timers = [];
  let last = 0;
  const define = (name, value) =>
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });

  function add(run, delay, given, repeats) {
    if (typeof run !== "function") throw new TypeError("a timer takes a function");
    const wait = Math.max(Math.trunc(Number(delay)) || 0, 1);
    timers.push({ id: ++last, at: clock() + wait, wait, repeats, run: () => run(...given) });
    return last;
  }
  const clear = (id) => {
    timers = timers.filter((timer) => timer.id !== id);
  };
  define("setTimeout", (run, delay, ...given) => add(run, delay, given, false));
  define("setInterval", (run, delay, ...given) => add(run, delay, given, true));
  define("setImmediate", (run, ...given) => add(run, 0, given, false));
  for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) define(name, clear);
  const next = () => timers.reduce((one, other) => (one && one.at <= other.at ? one : other), undefined);

  // The bytes of a character in UTF-8.
  function bytesOf(text) {
    const bytes = [];
    for (const character of String(text)) {
      let code = character.codePointAt(0);
      if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd;
      if (code < 0x80) bytes.push(code);
      else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
      else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
      else
        bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    }
    return bytes;
  }
  define("TextEncoder", class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return Uint8Array.from(bytesOf(text));
    }
  });

  function viewed(data) {
    if (data === undefined) return new Uint8Array(0);
    return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
  }
  define("TextDecoder", class TextDecoder {
    #fatal;
    constructor(label = "utf-8", { fatal = false } = {}) {
      if (!["utf-8", "utf8", "unicode-1-1-utf-8"].includes(String(label).trim().toLowerCase()))
        throw new RangeError(`there is no decoder for ${label} here, only for utf-8`);
      this.#fatal = fatal;
    }
    get encoding() {
      return "utf-8";
    }
    decode(data) {
      const bytes = viewed(data);
      const parts = [];
      let at = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
      while (at < bytes.length) {
        const first = bytes[at++];
        let more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
        let code = more < 1 ? first : first & (0x3f >> more);
        let whole = more >= 0;
        for (let left = more, least = true; whole && left > 0; left--, least = false) {
          const byte = bytes[at];
          const low = !least ? 0x80 : first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
          const high = !least ? 0xbf : first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
          whole = byte >= low && byte <= high;
          if (whole) code = (code << 6) | (bytes[at++] & 63);
        }
        if (!whole && this.#fatal) throw new TypeError("the bytes are no text in utf-8");
        parts.push(whole ? String.fromCodePoint(code) : "\ufffd");
      }
      return parts.join("");
    }
  });

  define("structuredClone", function structuredClone(value) {
    const known = new Map();
    const copy = (value) => {
      if (typeof value === "function" || typeof value === "symbol")
        throw new TypeError(`a ${typeof value} cannot be cloned`);
      if (typeof value !== "object" || value === null) return value;
      if (known.has(value)) return known.get(value);
      const keep = (made) => (known.set(value, made), made);
      if (value instanceof Date) return keep(new Date(value.getTime()));
      if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
      if (value instanceof ArrayBuffer) return keep(value.slice(0));
      if (value instanceof DataView)
        return keep(new DataView(copy(value.buffer), value.byteOffset, value.byteLength));
      if (ArrayBuffer.isView(value))
        return keep(new value.constructor(copy(value.buffer), value.byteOffset, value.length));
      if (value instanceof Boolean || value instanceof Number || value instanceof String) return keep(Object(value.valueOf()));
      if (value instanceof Map) {
        const made = keep(new Map());
        value.forEach((item, key) => made.set(copy(key), copy(item)));
        return made;
      }
      if (value instanceof Set) {
        const made = keep(new Set());
        value.forEach((item) => made.add(copy(item)));
        return made;
      }
      if (value instanceof Error) {
        const made = keep(new (globalThis[value.name] ?? Error)(value.message));
        made.stack = value.stack;
        return made;
      }
      const made = keep(Array.isArray(value) ? new Array(value.length) : {});
      for (const key of Object.keys(value))
        Object.defineProperty(made, key, { value: copy(value[key]), writable: true, enumerable: true, configurable: true });
      return made;
    };
    return copy(value);
  });

  let loaded;
  const web = (name) => (loaded ??= load())[name];
  for (const name of ["URL", "URLSearchParams", "Buffer"])
    Object.defineProperty(globalThis, name, {
      get() {
        define(name, web(name));
        return globalThis[name];
      },
      set(value) {
        define(name, value);
      },
      configurable: true,
    });
  // Held here, since a program may change what everybody finds.
  const { apply, deleteProperty } = Reflect;
  // There are no tables of languages. American English is what JavaScript writes where nobody asks for another; whoever does is
  // not answered in it without a word.
  const { toFixed } = Number.prototype;
  const { keys } = Object;
  const isEnglish = (locale) => locale === undefined || locale === "en" || locale === "en-US";
  function inEnglish(prototype, name, write, instead) {
    const { method } = {
      method(locale, options = {}) {
        const text = isEnglish(locale) ? write(this.valueOf(), options, this) : undefined;
        if (text !== undefined) return text;
        throw new TypeError(`${name} knows no language but English, and few options; ${instead}`);
      },
    };
    Object.defineProperty(prototype, name, { value: method, writable: true, configurable: true });
  }
  function grouped(value, options) {
    const { minimumFractionDigits: least = 0, maximumFractionDigits: most = least > 3 ? least : 3, ...others } = options;
    if (keys(others).length > 0 || least > most) return undefined;
    const size = value < 0 ? -value : value;
    if (size !== size) return "NaN";
    const sign = value < 0 ? "-" : "";
    if (size === Infinity) return `${sign}\u221e`;
    const isWhole = typeof size === "bigint" || size >= 1e21;
    const [whole, given = ""] = (isWhole ? `${BigInt(size)}` : apply(toFixed, size, [most])).split(".");
    let fraction = given;
    while (fraction.length > least && fraction.endsWith("0")) fraction = fraction.slice(0, -1);
    fraction = fraction.padEnd(least, "0");
    return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction && `.${fraction}`);
  }
  for (const prototype of [Number.prototype, BigInt.prototype])
    inEnglish(prototype, "toLocaleString", grouped, "use toFixed, and put in separators with replace");
  for (const name of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) {
    const plain = Date.prototype[name];
    const asIs = (_, options, date) => (keys(options).length === 0 ? apply(plain, date, []) : undefined);
    inEnglish(Date.prototype, name, asIs, "use toISOString or the parts of the date, such as getUTCFullYear");
  }
  // The order of a dictionary as far as it needs no tables: signs, digits, letters, then accents, then small before capital
  // letters. Languages with an order of their own are put into this one, too.
  const rank = (token) => (/^\p{L}/u.test(token) ? 2 : /^[0-9]/.test(token) ? 1 : 0);
  const less = (one, other) => (one === other ? 0 : one < other ? -1 : 1);
  function byLetters(one, other, numeric) {
    const [ones, others] = [one, other].map((text) => text.match(numeric ? /[0-9]+|[^]/gu : /[^]/gu) ?? []);
    for (let at = 0; at < ones.length && at < others.length; at++) {
      const [a, b] = [ones[at], others[at]];
      if (a === b) continue;
      // Only numbers have more than one sign, and no leading zeros any more: the longer one is the larger one.
      return less(rank(a), rank(b)) || (numeric && rank(a) === 1 && less(a.length, b.length)) || less(a, b);
    }
    return less(ones.length, others.length);
  }
  function byCase(one, other, capitalsFirst) {
    for (let at = 0; at < one.length && at < other.length; at++)
      if (one[at] !== other[at]) return (one[at] === one[at].toLowerCase() ? -1 : 1) * (capitalsFirst ? -1 : 1);
    return less(one.length, other.length);
  }
  function collated(one, other, options) {
    const { numeric, sensitivity = "variant", caseFirst, ignorePunctuation } = options;
    if (!["base", "accent", "case", "variant"].includes(sensitivity))
      throw new RangeError(`localeCompare knows no sensitivity ${sensitivity}, only base, accent, case and variant`);
    const read = (given) => {
      let text = given.normalize("NFD");
      if (ignorePunctuation) text = text.replace(/[\p{P}\s]/gu, "");
      return numeric ? text.replace(/(?<![0-9])0+(?=[0-9])/g, "") : text;
    };
    const texts = [one, other].map(read);
    const bare = texts.map((text) => text.replace(/\p{M}/gu, ""));
    const small = bare.map((text) => text.toLowerCase());
    const accents = () => texts.map((text) => text.replace(/\P{M}/gu, "\0"));
    return (
      byLetters(...small, numeric) ||
      (sensitivity === "accent" || sensitivity === "variant" ? less(...accents()) : 0) ||
      (sensitivity === "case" || sensitivity === "variant" ? byCase(...bare, caseFirst === "upper") : 0)
    );
  }
  const { localeCompare } = {
    localeCompare(other, _, options = {}) {
      if (this === undefined || this === null) throw new TypeError("localeCompare is of texts");
      const [one, two] = [`${this}`, `${other}`];
      return one === two ? 0 : collated(one, two, options);
    },
  };
  Object.defineProperty(String.prototype, "localeCompare", { value: localeCompare, writable: true, configurable: true });
  const { stringify } = JSON;
  const { isArray } = Array;
  const setPrototype = Object.setPrototypeOf;
  const [asNumber, asText] = [Number, String];
  const method = Function.prototype.bind.bind(Function.prototype.call);
  const inherits = method(Function.prototype[Symbol.hasInstance]);
  const sizeOf = (kind) => method(Object.getOwnPropertyDescriptor(kind.prototype, "size").get);
  const visit = { map: method(Map.prototype.forEach), set: method(Set.prototype.forEach) };
  const kinds = { map: Map, set: Set, error: Error, promise: Promise };
  const sizes = { map: sizeOf(Map), set: sizeOf(Set) };
  const knownOf = method(WeakMap.prototype.get);
  const know = method(WeakMap.prototype.set);
  const Known = WeakMap;
  const isA = (kind, value) => {
    try {
      // Whoever only looks like one throws.
      return inherits(kinds[kind], value) && (sizes[kind] === undefined || sizes[kind](value) >= 0);
    } catch {
      return false;
    }
  };
  const prototypeOf = Object.getPrototypeOf;
  const isBehind = method(Object.prototype.isPrototypeOf);
  // What generators and the like have in common, which has no name of its own everywhere.
  const steps = prototypeOf(prototypeOf([][Symbol.iterator]()));
  const stepsLater = prototypeOf(prototypeOf(async function* () {}.prototype));
  const goesOn = (prototype, value) => {
    try {
      return isBehind(prototype, value) && typeof value.next === "function";
    } catch {
      return false;
    }
  };
  const list = () => setPrototype([], null);
  function ofMap(map) {
    let named = true;
    visit.map(map, (_, key) => (named &&= typeof key === "string"));
    const made = named ? { __proto__: null } : list();
    visit.map(map, (value, key) => {
      if (named) made[key] = value;
      else made[made.length] = setPrototype([key, value], null);
    });
    return made;
  }
  function ofSet(set) {
    const made = list();
    visit.set(set, (value) => (made[made.length] = value));
    return made;
  }
  function ofSteps(steps) {
    const made = list();
    for (let step = steps.next(); !step.done; step = steps.next()) made[made.length] = step.value;
    return made;
  }
  async function ofStepsLater(steps) {
    const made = list();
    for (let step = await steps.next(); !step.done; step = await steps.next()) made[made.length] = step.value;
    return made;
  }
  // Of an error its name and message can be seen by nobody who lists its members.
  const ofError = (error) => ({ __proto__: null, name: asText(error.name), message: asText(error.message), ...error });
  const Plain = Object.prototype;
  const isPlain = (value) => {
    try {
      return prototypeOf(value) === Plain;
    } catch {
      return false;
    }
  };
  function makerOf(value, isResult) {
    // Nearly everything is.
    if (isPlain(value)) return undefined;
    if (isA("map", value)) return ofMap;
    if (isA("set", value)) return ofSet;
    if (isA("error", value)) return ofError;
    if (!isResult) return undefined;
    if (isA("promise", value))
      throw new Mistake("the result has a promise in it; use `await`, or `await Promise.all(...)` for a list of them");
    // Going through it leaves nothing, so that it is done with what nobody needs any more.
    return goesOn(steps, value) ? ofSteps : undefined;
  }
  const Mistake = TypeError;
  const SAFE = 9007199254740991n;
  // What JSON has no word for, in its words.
  function json(value, isResult) {
    // The same for the same, so that what holds itself is seen to.
    let known;
    return stringify(value, (_, value) => {
      if (typeof value === "bigint") return value >= -SAFE && value <= SAFE ? asNumber(value) : asText(value);
      if (typeof value !== "object" || value === null || isArray(value)) return value;
      const make = makerOf(value, isResult);
      if (make === undefined) return value;
      known ??= new Known();
      let made = knownOf(known, value);
      if (made === undefined) know(known, value, (made = make(value)));
      return made;
    });
  }

  const { console } = globalThis;
  for (const name of Object.keys(console)) {
    const print = console[name];
    console[name] = (...values) => {
      for (let at = 0; at < values.length; at++) {
        const value = values[at];
        if (typeof value !== "object" || value === null || isA("error", value)) continue;
        try {
          values[at] = json(value, false) ?? value;
        } catch {
          // It is shown in another way.
        }
      }
      return apply(print, undefined, values);
    };
  }
  const { log, error: complain } = console;
  const [started, counted] = [{ __proto__: null }, { __proto__: null }];
  const took = (name) => `${name}: ${clock() - (started[name] ?? clock())}ms`;
  const others = {
    dir: (value) => log(value),
    dirxml: log,
    table: (rows) => log(rows),
    group: (...values) => (values.length > 0 ? log(...values) : undefined),
    groupEnd() {},
    time: (name = "default") => void (started[name] = clock()),
    timeLog: (name = "default", ...values) => log(took(name), ...values),
    timeEnd(name = "default") {
      log(took(name));
      delete started[name];
    },
    count: (name = "default") => log(`${name}: ${(counted[name] = (counted[name] ?? 0) + 1)}`),
    countReset: (name = "default") => void delete counted[name],
    assert: (holds, ...values) => (holds ? undefined : complain("Assertion failed", ...values)),
    trace: (...values) => complain("Trace", ...values),
  };
  for (const name of Object.keys(others)) console[name] = others[name];
  console.groupCollapsed = console.group;

  // What calls of `main` by the program itself go through, until it would be called.
  let own = true;
  let gave;
  const known = (main) => {
    if (typeof main !== "function") return main;
    return function (...given) {
      const value = apply(main, this, given);
      // What can be gone through once has been, and would be empty.
      if (own && !goesOn(steps, value) && !goesOn(stepsLater, value)) gave = { value };
      return value;
    };
  };
  // Where `main` is a variable, of whatever it becomes.
  known.variable = () => {
    let main;
    const set = (value) => {
      main = known(value);
    };
    Object.defineProperty(globalThis, "main", { get: () => main, set, configurable: true });
  };
  define("__main", known);

  return {
    wait() {
      const timer = next();
      return timer ? Math.max(timer.at - clock(), 0) : -1;
    },
    fire() {
      const timer = next();
      if (timer.repeats) timer.at = clock() + timer.wait;
      else clear(timer.id);
      timer.run();
    },
    gathered: (value) => (goesOn(stepsLater, value) ? ofStepsLater(value) : value),
    json: (value) => json(value, true),
    called() {
      own = false;
      deleteProperty(globalThis, "__main");
      return gave;
    },
  };
}
