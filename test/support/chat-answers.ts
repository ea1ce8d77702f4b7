import { createAnswerParser, type AnswerParserOptions } from '../../src/chat/parser/answer-parser.ts';
import { toolCallFormats } from '../../src/chat/tool-call-formats/index.ts';
import type { ChatDelta, ChatParser } from '../../src/chat/types.ts';

export const weather = {
  name: 'get_weather',
  parameters: {
    type: 'object',
    properties: {
      city: { type: 'string' },
      days: { type: 'integer' },
      units: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      where: { $ref: '#/$defs/place' },
    },
    required: ['city'],
    $defs: { place: { type: 'object' } },
  },
};
export const tools = new Map([weather, { name: 'now' }].map((tool) => [tool.name, tool]));

export const reading = (
  style: string | undefined,
  more: Partial<AnswerParserOptions> = {},
): AnswerParserOptions => {
  let ids = 0;
  const found = toolCallFormats.find(({ name }) => name === style);
  if (style !== undefined && !found) throw new Error(`no style '${style}'`);
  return {
    toolCallFormat: found,
    reasoning: undefined,
    startState: 'turn',
    tools,
    isSingleCall: false,
    newId: () => `id-${ids++}`,
    ...more,
  };
};

export interface Parsed {
  content: string;
  reasoning: string;
  calls: { id: string; name: string; arguments: string }[];
}

/** As small pieces as a model's text comes in: whole characters. */
export const letters = (text: string): string[] => Array.from(text);

/** What the deltas of an answer, given piece by piece, add up to. */
export const parse = (pieces: readonly string[], how: AnswerParserOptions): Parsed =>
  collected(createAnswerParser(how), pieces);

export function collected(parser: ChatParser, pieces: readonly string[]): Parsed {
  const deltas: ChatDelta[] = [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()];
  const parsed: Parsed = { content: '', reasoning: '', calls: [] };
  for (const delta of deltas) {
    if (delta.type === 'tool_call')
      parsed.calls[delta.index] = { id: delta.id, name: delta.name, arguments: '' };
    else if (delta.type === 'tool_arguments')
      (parsed.calls[delta.index] as { arguments: string }).arguments += delta.text;
    else parsed[delta.type] += delta.text;
  }
  return parsed;
}
