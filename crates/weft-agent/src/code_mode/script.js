// Runs `source` as the body of an async function until it ends or waits for calls that have no answer yet.
async function main({ source, names, answers, now }) {
  const TICKS = 256; // turns of waiting promises after which nothing more is expected to be asked at once
  const PATIENCE = 200000; // turns after which a script that asks nothing waits for nothing
  const asked = [];
  let place = 0;

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

  const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor;
  const script = new AsyncFunction("tools", source);
  const work = (async () => ({ result: (await script(offered)) ?? null }))();
  const quiet = (async () => {
    for (let turn = 0, since = 0; turn < PATIENCE; turn++) {
      await null;
      since = asked.length ? since + 1 : 0;
      if (since > TICKS) return null;
    }
    throw new Error("the script waits for something that never happens");
  })();
  const end = await Promise.race([work, quiet]);
  // Calls that nobody waits for are made, too.
  return asked.length ? { asked } : end;
}
