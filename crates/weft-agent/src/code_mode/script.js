// Runs `source` as the body of an async function until it ends or waits for calls that have no answer yet.
async function main({ source, names, answers, now }) {
  const TICKS = 256; // turns of waiting promises after which nothing more is expected to be asked at once
  const PATIENCE = 200000; // turns after which a script that asks nothing waits for nothing
  const asked = [];
  let place = 0;
  // A script that has none of its own would find this one.
  globalThis.main = undefined;

  // The same time and the same numbers in each run.
  const RealDate = Date;
  globalThis.Date = class Date extends RealDate {
    constructor(...given) {
      given.length ? super(...given) : super(now);
    }
    static now() {
      return now;
    }
  };
  let seed = 2463534242;
  Math.random = () => {
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    return (seed >>> 0) / 4294967296;
  };

  function call(name, given) {
    const own = given === undefined ? {} : JSON.parse(JSON.stringify(given));
    if (own === null || typeof own !== "object" || Array.isArray(own)) {
      throw new TypeError(`tools.${name} takes one object with the arguments by name`);
    }
    const answer = answers[place++];
    if (answer === undefined) {
      asked.push({ name, arguments: own });
      return new Promise(() => {});
    }
    if (answer.name !== name) {
      throw new Error(`the script called ${answer.name} before where it calls ${name} now; it has to do the same each time`);
    }
    return "error" in answer ? Promise.reject(new Error(answer.error)) : Promise.resolve(answer.value);
  }

  const tools = {};
  for (const name of names) tools[name] = (given) => call(name, given);
  const offered = new Proxy(tools, {
    get(target, name) {
      if (typeof name === "symbol" || name in target) return target[name];
      throw new Error(`there is no tool ${name}; there are ${names.join(", ")}`);
    },
  });

  // Timers are due as soon as nothing else happens: their time is not that of a clock, which each run would see another of.
  let timers = [];
  let [timer, passed] = [0, 0];
  const later = (run, delay, given, every) => {
    timers.push({ id: ++timer, at: passed + Math.max(Number(delay) || 0, 1), every, run: () => run(...given) });
    return timer;
  };
  const clear = (id) => void (timers = timers.filter((one) => one.id !== id));
  globalThis.setTimeout = (run, delay, ...given) => later(run, delay, given, 0);
  globalThis.setInterval = (run, delay, ...given) => later(run, delay, given, Math.max(Number(delay) || 0, 1));
  globalThis.setImmediate = (run, ...given) => later(run, 0, given, 0);
  globalThis.clearTimeout = globalThis.clearInterval = globalThis.clearImmediate = clear;
  function fire() {
    const due = timers.reduce((one, other) => (one && one.at <= other.at ? one : other), undefined);
    if (!due) return;
    passed = due.at;
    if (due.every) due.at += due.every;
    else clear(due.id);
    due.run();
  }

  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  // A script that defines `main` and does not call it has it called, as programs of canvases have.
  const own = /\bmain\s*\(/.test(source.replace(/\bfunction\s+main\s*\(/g, ""));
  const call_main = own ? "" : "\n;return typeof main === 'function' ? await main() : undefined;";
  const script = (() => {
    try {
      return new AsyncFunction("tools", source + call_main);
    } catch (error) {
      if (/^\s*(import\b(?!\s*[(.])|export\b)/m.test(source))
        throw new SyntaxError(`${error.message}; there are no modules, and a script is the body of a function: it has no import and export`);
      throw error;
    }
  })();
  const work = (async () => ({ result: (await script(offered)) ?? null }))();
  const quiet = (async () => {
    for (let turn = 0, since = 0; turn < PATIENCE; turn++) {
      await null;
      since = asked.length ? since + 1 : 0;
      if (since > TICKS) return null;
      if (!asked.length && turn % TICKS === TICKS - 1) fire();
    }
    throw new Error("the script waits for something that never happens");
  })();
  const end = await Promise.race([work, quiet]);
  // Calls that nobody waits for are made, too.
  return asked.length ? { asked } : end;
}
