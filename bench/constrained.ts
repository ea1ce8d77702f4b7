/**
 * Cost of constrained decoding on the embedded model: decode tokens per second without a constraint, with a full mask
 * for every token, and with grammars. The cases alternate in one process. The first three generate the same answer; the
 * others generate as many tokens of constrained output.
 */
import { fileURLToPath } from 'node:url';
import { type Constraint, greedySampling, loadEngine } from '../src/engine/index.ts';
import { createGrammarService } from '../src/grammar/index.ts';
import { startGrammarThread } from '../src/platform/node-grammar.ts';
import { benchPlatform } from './platform.ts';
import { median } from './statistics.ts';

const rounds = Number(process.argv[2] ?? 40);
/** Answers are short, so that all cases of a round see the same load on the machine. */
const tokens = 64;
const model = 'models/lathe-tiny-q8_0.gguf';
const story = 'Once upon a time there was a little cat that';

// Speculation would speed up unconstrained answers only.
const engine = await loadEngine(benchPlatform(), { model, parallel: 1, speculation: 'off' });
const prompt = [...engine.tokenizer.encode(story)];

const allowAll: Constraint = {
  next: () => Promise.resolve(new Uint32Array(Math.ceil(engine.model.vocabSize / 32)).fill(0xffffffff)),
  close() {},
};

/** Tokens per second of one answer after its first token. */
async function decodeRate(constraint?: Constraint): Promise<number> {
  const constraintOption = constraint ? { constraint } : {};
  for await (const event of engine.generate({
    prompt,
    maxTokens: tokens,
    sampling: greedySampling,
    stop: [],
    ...constraintOption,
  })) {
    if (event.type !== 'end') continue;
    if (event.usage.completion_tokens < 50) throw new Error('the answer is too short to be timed');
    return ((event.usage.completion_tokens - 1) * 1000) / event.timings.decode_ms;
  }
  throw new Error('the engine ended an answer without its last event');
}

const worker = fileURLToPath(new URL('../src/grammar-worker.ts', import.meta.url));
const grammars = createGrammarService({
  tokenizer: engine.tokenizer,
  vocabSize: engine.model.vocabSize,
  startWorker: () => startGrammarThread(worker),
});
// Matches any text: masks are computed for each token, but the answer does not change.
const text = await grammars.compile({ kind: 'regex', pattern: '[^~]*' });
/** Requires so many items that the answer reaches its token limit. */
const listSchema = (items: object) => ({
  type: 'object',
  properties: { list: { type: 'array', items, minItems: 300 } },
  required: ['list'],
});
const schemaOf = (items: object) => grammars.compile({ kind: 'json_schema', schema: listSchema(items) });
const freeStrings = await schemaOf({ type: 'string' });
const boundedStrings = await schemaOf({ type: 'string', minLength: 5, maxLength: 40 });
const call = await grammars.compile({
  kind: 'structural',
  format: {
    type: 'triggered_tags',
    triggers: ['<tool_call>'],
    tags: [
      {
        type: 'tag',
        begin: '<tool_call>\n{"name": "write", "arguments": ',
        content: { type: 'json_schema', json_schema: listSchema({ type: 'string', maxLength: 40 }) },
        end: '}\n</tool_call>',
      },
    ],
    at_least_one: true,
  },
});
const cases: Readonly<Record<string, () => Constraint | undefined>> = {
  none: () => undefined,
  'full masks': () => allowAll,
  grammar: () => text.start(),
  schema: () => freeStrings.start(),
  'schema with lengths': () => boundedStrings.start(),
  'tool call': () => call.start(),
};
const rates = new Map(Object.keys(cases).map((name) => [name, [] as number[]]));
for (let round = 0; round <= rounds; round++) {
  for (const [name, constraint] of Object.entries(cases)) {
    const decodeTokensPerSecond = await decodeRate(constraint());
    // The first round warms up.
    if (round > 0) rates.get(name)!.push(decodeTokensPerSecond);
  }
}
const base = rates.get('none')!;
for (const [name, all] of rates) {
  const ratios = all
    .map((decodeTokensPerSecond, round) => decodeTokensPerSecond / base[round]!)
    .sort((a, b) => a - b);
  // Order statistics around the median that form its 95 % interval.
  const halfWidth = Math.ceil(0.98 * Math.sqrt(ratios.length));
  const middle = (ratios.length - 1) / 2;
  const low = ratios[Math.max(0, Math.floor(middle) - halfWidth)]!;
  const high = ratios[Math.min(ratios.length - 1, Math.ceil(middle) + halfWidth)]!;
  console.log(
    `${name}: ${median(all).toFixed(0)} tokens/s, ratio ${median(ratios).toFixed(3)} ` +
      `(95 %: ${low.toFixed(3)} to ${high.toFixed(3)})`,
  );
}
await grammars.close();
await engine.close();
