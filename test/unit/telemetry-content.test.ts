import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toContentAttributes } from '../../src/telemetry/content.ts';
import { type TranscriptEntry, Tracer, type TraceSpan } from '../../src/tracing/index.ts';

type Role = TranscriptEntry['role'];
const roles: Role[] = ['system', 'user', 'assistant', 'reasoning', 'tool_call', 'tool'];

function work(
  entries: readonly (readonly [Role, string])[],
  kind: 'completion' | 'turn' = 'completion',
): TraceSpan {
  const watch = new Tracer([{ wantsTranscript: () => true }]);
  const facts = { wire: 'chat', operation: 'chat', by: 'x', stream: false, finish: 'length' } as const;
  const turn = { agent: 'a', engine: 'resident', model: 'm' } as const;
  const begun = (kind === 'turn'
    ? watch.startSpan(kind, '1', { ...turn })
    : watch.startSpan(kind, '1', { ...facts })) as unknown as TraceSpan;
  for (const [role, text] of entries)
    begun.addTranscriptEntry(role, () => text, role === 'tool_call' ? 'look' : undefined);
  return begun;
}

interface Message {
  role: string;
  parts: { type: string; [member: string]: string }[];
  finish_reason?: string;
}
function messages(entries: readonly (readonly [Role, string])[], redact = (text: string) => text) {
  const content = toContentAttributes(work(entries), redact);
  const read = (name: string) => JSON.parse(content[name] ?? '[]') as Message[];
  return { input: read('gen_ai.input.messages'), output: read('gen_ai.output.messages') };
}

test('entries after the last input are the answer; each of several answers is a message', () => {
  const { input, output } = messages([
    ['user', 'q'],
    ['assistant', 'a'],
    ['assistant', 'b'],
    ['user', 'q2'],
    ['reasoning', 'r'],
    ['assistant', 'one'],
    ['reasoning', 'r'],
    ['assistant', 'two'],
    ['tool_call', '{}'],
    ['tool_call', '{"a":1}'],
  ]);
  expect(input.map(({ role, parts }) => [role, parts.length])).toEqual([
    ['user', 1],
    ['assistant', 1],
    ['assistant', 1],
    ['user', 1],
  ]);
  expect(output).toEqual([
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', content: 'r' },
        { type: 'text', content: 'one' },
      ],
      finish_reason: 'length',
    },
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', content: 'r' },
        { type: 'text', content: 'two' },
        { type: 'tool_call', name: 'look', arguments: '{}' },
        { type: 'tool_call', name: 'look', arguments: '{"a":1}' },
      ],
      finish_reason: 'length',
    },
  ]);
});

test('a turn without input has only output; an empty transcript has no attributes', () => {
  expect(Object.keys(toContentAttributes(work([['assistant', 'x']], 'turn'), String))).toEqual([
    'gen_ai.output.messages',
  ]);
  expect(toContentAttributes(work([]), String)).toEqual({});
});

test('the latest entries of a long conversation are kept, within the limit; a long text is shortened', () => {
  const { input } = messages(
    Array.from({ length: 100 }, (_, n) => ['user', `${n}:${'x'.repeat(1000)}`] as const),
  );
  expect(input.length).toBeGreaterThan(10);
  expect(input.length).toBeLessThan(17);
  expect(input.at(-1)?.parts[0]?.['content']).toMatch(/^99:/);
  const [long] = messages([['user', '"'.repeat(100_000)]]).input;
  expect(JSON.stringify(long).length).toBeLessThan(17_000);
  expect(long?.parts[0]?.['content']).toMatch(/…$/);
});

describe('no part of a secret is exported', () => {
  const secret = 'sk-0123456789abcdef0123456789abcdef';
  const redact = (text: string) => text.replaceAll(secret, '[redacted]');
  const partOf = /sk-|0123|cdef/;

  test('where texts are cut, also after earlier redactions have moved the cut', () => {
    const watch = new Tracer([{ wantsTranscript: () => true }]);
    for (const before of [0, 100, 400])
      for (const cut of [8_192, 16_384, 24_576])
        for (let into = 0; into <= secret.length; into += 5) {
          const tool = { tool: 't', agent: 'a', callId: 'c', toolKind: 'read' } as const;
          const call = watch.startSpan('tool', '1', { ...tool });
          const text = secret.repeat(before).padEnd(cut - into, '.') + secret;
          call.addTranscriptEntry('tool', () => text.padEnd(50_000, '.'));
          const result = toContentAttributes(call, redact)['gen_ai.tool.call.result'] ?? '';
          expect(result).not.toMatch(partOf);
          expect(result.length).toBeGreaterThan(3_000);
          expect(result.length).toBeLessThan(16_400);
        }
  });

  test('wherever it occurs in a text', () => {
    const filler = fc.oneof(fc.nat(50), fc.integer({ min: 8_000, max: 9_000 }), fc.nat(25_000));
    const texts = fc.array(fc.tuple(fc.constantFrom(...roles), fc.array(filler, { maxLength: 6 })), {
      maxLength: 4,
    });
    fc.assert(
      fc.property(texts, (conversation) => {
        const entries = conversation.map(
          ([role, fillers]) => [role, fillers.map((n) => '.'.repeat(n)).join(secret)] as const,
        );
        const sent = Object.values(toContentAttributes(work(entries), redact)).join('');
        expect(sent).not.toMatch(partOf);
        expect(sent.length).toBeLessThan(2 * 17_000);
      }),
      { numRuns: 200 },
    );
  });
});

test('content is always valid JSON without broken characters', () => {
  const text = fc.string({ unit: 'binary', maxLength: 40_000 });
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom(...roles), text), { maxLength: 5 }), (entries) => {
      for (const sent of Object.values(toContentAttributes(work(entries), String))) {
        expect(Array.isArray(JSON.parse(sent))).toBe(true);
        expect(sent.isWellFormed()).toBe(true);
      }
    }),
    { numRuns: 50 },
  );
});
