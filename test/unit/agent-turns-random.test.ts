import fc from 'fast-check';
import { expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import type { ChatModelEvent, ChatModelRequest } from '../../src/agent/chat-model.ts';
import { createSpanRecorder } from '../support/span-recorder.ts';
import { failingModel, changeTool, okOutput, readTool, turnWorld } from '../support/turn-world.ts';

const text = fc.string({ unit: 'binary', maxLength: 20 });
const usage = fc.option(fc.record({ promptTokens: fc.nat(50), completionTokens: fc.nat(40) }), {
  nil: undefined,
});
const call = fc.record({
  id: fc.constantFrom('', 'c1', 'c2'),
  name: fc.constantFrom('look', 'no', 'write', 'bug', 'hidden', 'unknown'),
  arguments: fc.oneof(text, fc.json({ maxDepth: 2 }), fc.constant('{}')),
});
const event: fc.Arbitrary<ChatModelEvent> = fc.oneof(
  fc.record({ type: fc.constantFrom('delta' as const, 'reasoning' as const), text }),
  fc.record({ type: fc.constant('call' as const), call }),
);
const end: fc.Arbitrary<ChatModelEvent> = fc
  .record({ finish: fc.constantFrom('stop', 'tool_calls', 'length'), usage })
  .map(({ finish, usage: used }) => ({ type: 'end', finish, ...(used ? { usage: used } : {}) }));
const answer = fc.tuple(fc.array(event, { maxLength: 5 }), end).map(([events, last]) => [...events, last]);
const failure = fc.constantFrom(
  new AgentError('invalid', 'context_length_exceeded', 'full'),
  new AgentError('unavailable', 'gone', 'gone'),
  new Error('bug'),
);
const step = fc.oneof(
  { weight: 8, arbitrary: answer },
  { weight: 1, arbitrary: failure.map((error) => () => failingModel(error)) },
);

const tools = [
  readTool('look', () => okOutput('seen')),
  readTool('no', () => ({ ok: false, output: 'no', truncated: false })),
  readTool('bug', () => Promise.reject(new Error('bug'))),
  readTool('hidden', () => okOutput('hidden')),
  changeTool('write'),
];
const grants = { tools: ['look', 'no', 'write', 'bug'], read: [], write: [], network: [], auto_approve: [] };

const isSummary = ({ messages }: ChatModelRequest) =>
  messages[0]?.content.startsWith('Summarize the conversation') === true;

it('every random script ends once, within its limits, with a result for every call', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 12 }),
      fc.record({ max_turns: fc.integer({ min: 1, max: 8 }), max_tokens: fc.integer({ min: 1, max: 150 }) }),
      async (steps, limits) => {
        const seen = createSpanRecorder(['agent']);
        const world = turnWorld({ steps, tools, agent: { grants }, tracer: seen.tracer });
        const result = await world.run({ limits });
        // The parent span, which the caller ends.
        seen.spansOf('task')[0]?.end({ outcome: 'ok' });
        seen.expectAllEnded();
        expect(seen.spansOf('turn')).toHaveLength(result.turns);
        expect(seen.spansOf('tool')).toHaveLength(world.results().length);
        expect(new Set(seen.started.map(({ kind, id }) => `${kind} ${id}`)).size).toBe(seen.started.length);
        const types = world.types();
        expect(types.filter((type) => type === 'answer' || type === 'aborted')).toHaveLength(1);
        expect(types.at(-1)).toBe(result.kind);
        expect(types.filter((type) => type === 'turn').length).toBe(result.turns);
        expect(result.turns).toBeLessThanOrEqual(limits.max_turns);
        // The remaining tokens of a request never exceed the budget minus the counted tokens.
        const { requests } = world.chatModel;
        for (const { maxTokens } of requests) {
          expect(maxTokens).toBeGreaterThan(0);
          expect(maxTokens).toBeLessThanOrEqual(limits.max_tokens);
        }
        // A summary gets a part of what is left.
        const left = requests.filter((one) => !isSummary(one)).map(({ maxTokens }) => maxTokens);
        expect(left).toEqual(left.toSorted((a, b) => b - a));
        const callIds = world.events.flatMap((one) => (one.type === 'tool_call' ? [one.call_id] : []));
        expect(new Set(callIds).size).toBe(callIds.length);
        // Calls that only read end in any order.
        expect(
          world
            .results()
            .map(({ call_id }) => call_id)
            .toSorted(),
        ).toEqual(callIds.toSorted());
        expect(world.results().some(({ output }) => output === 'hidden')).toBe(false);
        for (const request of world.chatModel.requests)
          expect(request.tools.map(({ name }) => name)).not.toContain('hidden');
      },
    ),
    { numRuns: 300 },
  );
});
