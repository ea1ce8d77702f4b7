import { formatBytes, type ModelFacts } from '../../engine/index.ts';
import { formatJson, printable } from '../../terminal/printable.ts';
import { formatCount } from '../ready-line.ts';
import { StartError } from '../start-error.ts';
import type { CliContext } from '../cli-context.ts';
import { formatTable } from './format-table.ts';
import { inspectLocation } from './inspect.ts';

/** Digest of a model's tensors, or a remark why it is not available. */
export type Digest = string | { readonly remark: string };

/** Prints the facts of one model's headers. */
export async function showModel(
  { name, location, digest }: { name: string; location: string; digest: Digest },
  { cli, json }: { cli: CliContext; json: boolean },
): Promise<void> {
  const inspected = await inspectLocation(cli, location);
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
    cli.stdout.write(`${formatJson(entry)}\n`);
    return;
  }
  const rows = factLines(facts, digest).map(([label, text]) => `${label.padEnd(14)}${printable(text)}\n`);
  const types = facts.types.map(({ type, tensors, weights, bytes }) => [
    `  ${type}`,
    String(tensors),
    formatCount(weights),
    formatBytes(bytes),
  ]);
  cli.stdout.write(
    `${printable(name)}\n${rows.join('')}${formatTable(['  TYPE', 'TENSORS', 'WEIGHTS', 'SIZE'], types)}`,
  );
}

function factLines(facts: ModelFacts, digest: Digest): (readonly [string, string])[] {
  const { tokenizer, memory, contextLength } = facts;
  return [
    ...(facts.name === undefined ? [] : [['title', facts.name] as const]),
    ['format', facts.format],
    ['architecture', facts.architecture],
    ['parameters', `${formatCount(facts.parameters)} (${facts.parameters})`],
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
