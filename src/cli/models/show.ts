import { formatBytes, type ModelFacts } from '../../engine/index.ts';
import { jsonText, printable } from '../../terminal/printable.ts';
import { shortCount } from '../ready-line.ts';
import { StartError } from '../start-error.ts';
import type { World } from '../world.ts';
import { columns } from './columns.ts';
import { inspectAt } from './open.ts';

/** Digest of a model's tensors, or a remark why it is not available. */
export type Digest = string | { readonly remark: string };

/** Prints the facts of one model's headers. */
export async function showModel(
  { name, location, digest }: { name: string; location: string; digest: Digest },
  { world, json }: { world: World; json: boolean },
): Promise<void> {
  const inspected = await inspectAt(world, location);
  if ('problem' in inspected) throw new StartError(`cannot read '${name}': ${inspected.problem}`);
  const { facts } = inspected;
  if (json) {
    const { name: title, parameters, sizeBytes, contextLength, types, chatTemplate, memory, ...rest } = facts;
    const entry = {
      name,
      location,
      title: title ?? null,
      ...rest,
      parameters,
      size_bytes: sizeBytes,
      context_length: contextLength ?? null,
      tensors: types,
      chat_template: chatTemplate,
      memory: memory ?? null,
      digest: typeof digest === 'string' ? digest : null,
    };
    world.stdout.write(`${jsonText(entry)}\n`);
    return;
  }
  const rows = linesOf(facts, digest).map(([label, text]) => `${label.padEnd(14)}${printable(text)}\n`);
  const types = facts.types.map(({ type, tensors, weights, bytes }) => [
    `  ${type}`,
    String(tensors),
    shortCount(weights),
    formatBytes(bytes),
  ]);
  world.stdout.write(
    `${printable(name)}\n${rows.join('')}${columns(['  TYPE', 'TENSORS', 'WEIGHTS', 'SIZE'], types)}`,
  );
}

function linesOf(facts: ModelFacts, digest: Digest): (readonly [string, string])[] {
  const { tokenizer, memory, contextLength } = facts;
  return [
    ...(facts.name === undefined ? [] : [['title', facts.name] as const]),
    ['format', facts.format],
    ['architecture', facts.architecture],
    ['parameters', `${shortCount(facts.parameters)} (${facts.parameters})`],
    ['quantization', facts.quantization],
    ['size', `${formatBytes(facts.sizeBytes)} (${facts.sizeBytes} bytes)`],
    ['context', contextLength === undefined ? 'unknown' : `${contextLength} tokens`],
    [
      'memory',
      memory ? `${formatBytes(memory.bytes)} for a sequence of ${memory.context} tokens` : 'unknown',
    ],
    ['tokenizer', tokenizer ? `${tokenizer.kind}, ${tokenizer.tokens} tokens` : 'unusable'],
    ['chat template', facts.chatTemplate ? 'yes' : 'no'],
    ['digest', typeof digest === 'string' ? digest : digest.remark],
    ...facts.notes.map((note) => ['note', note] as const),
    ...facts.problems.map((problem) => ['unusable', problem] as const),
  ];
}
