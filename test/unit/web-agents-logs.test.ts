import { describe, expect, it } from 'vitest';
import { buildRunLog } from '../../web/console/agents/run-log.ts';
import type { RunEvent, TurnEvent } from '../../web/console/agents/schemas.ts';
import { summarizeArguments, buildTurnLog } from '../../web/console/agents/turn-log-data.ts';

type Bare<Event> = Event extends unknown ? Omit<Event, 'seq' | 'ts'> : never;
const numbered = <Event extends TurnEvent | RunEvent>(events: readonly Bare<Event>[]): Event[] =>
  events.map((event, seq) => ({ ...event, seq, ts: '2026-01-01T00:00:00.000Z' }) as unknown as Event);

const call = { type: 'tool_call', call_id: 'c1', tool: 'fs_write', arguments: { path: 'a.md' } } as const;

describe('the log of a task', () => {
  it('joins text deltas, and shows the last text once, as the answer', () => {
    const { blocks, usageTotals } = buildTurnLog(
      numbered<TurnEvent>([
        { type: 'start', task_id: 't1', agent: 'default' },
        { type: 'turn', n: 1 },
        { type: 'reasoning', text: 'Let me ' },
        { type: 'reasoning', text: 'see.' },
        { type: 'delta', text: 'It is ' },
        { type: 'delta', text: 'blue.' },
        { type: 'usage', prompt_tokens: 30, completion_tokens: 4 },
        { type: 'answer', text: 'It is blue.', turns: 1 },
      ]),
    );
    expect(blocks.map(({ kind }) => kind)).toEqual(['turn', 'reasoning', 'end']);
    expect(blocks[1]).toMatchObject({ text: 'Let me see.' });
    expect(usageTotals).toEqual({ turns: 1, prompt: 30, completion: 4 });
  });

  it('keeps text that is not the answer', () => {
    const { blocks } = buildTurnLog(
      numbered<TurnEvent>([
        { type: 'delta', text: 'Half an ans' },
        { type: 'aborted', reason: 'budget', message: 'There was no whole answer.' },
      ]),
    );
    expect(blocks.map(({ kind }) => kind)).toEqual(['text', 'end']);
  });

  it('adds staged changes and results to their call', () => {
    const { blocks } = buildTurnLog(
      numbered<TurnEvent>([
        call,
        { type: 'staged', pending_id: 'p1', tool: 'fs_write', summary: 'Create a.md.' },
        { type: 'tool_result', call_id: 'c1', ok: true, output: 'waits', truncated: false },
        { ...call, call_id: 'c2' },
        { type: 'tool_result', call_id: 'c2', ok: false, output: 'no', truncated: false },
        // A step may stage a change without a call.
        { type: 'staged', pending_id: 'p2', tool: 'fs_write', summary: 'Create b.md.' },
      ]),
    );
    expect(blocks).toMatchObject([
      { kind: 'call', staged: { pending_id: 'p1' }, result: { ok: true } },
      { kind: 'call', result: { ok: false } },
      { kind: 'staged', staged: { pending_id: 'p2' } },
    ]);
    expect(blocks[1]).not.toHaveProperty('staged');
  });

  it('adds what a call prints to it, also where calls have the same id', () => {
    const { blocks } = buildTurnLog(
      numbered<TurnEvent>([
        call,
        { type: 'tool_output', call_id: 'c1', text: 'one\n' },
        { type: 'tool_output', call_id: 'c1', text: 'two\n' },
        { type: 'tool_result', call_id: 'c1', ok: true, output: 'exit code 0', truncated: false },
        call,
        { type: 'tool_output', call_id: 'c1', text: 'three\n' },
        { type: 'tool_output', call_id: 'c9', text: 'of no call' },
      ]),
    );
    expect(blocks).toMatchObject([{ output: 'one\ntwo\n', result: { ok: true } }, { output: 'three\n' }]);
    expect(blocks[1]).not.toHaveProperty('result');
  });

  it('summarizes the arguments of a call in one line', () => {
    expect(summarizeArguments({ path: 'a\nb', content: 'x'.repeat(100), lines: 3 })).toBe(
      `path: a b, content: ${'x'.repeat(57)}..., lines: 3`,
    );
    expect([summarizeArguments(undefined), summarizeArguments(null), summarizeArguments([1])]).toEqual([
      '',
      'null',
      '0: 1',
    ]);
  });
});

describe('the log of a run', () => {
  const start = { type: 'run_start', run_id: 'r1', workflow: 'w', digest: 'd' } as const;
  const stepText = (step: string, text: string): Bare<RunEvent> => ({
    type: 'step_event',
    step,
    event: { type: 'delta', seq: 0, ts: '', text },
  });

  it('keeps the attempts of a step separate', () => {
    const parts = buildRunLog(
      numbered<RunEvent>([
        start,
        { type: 'step_start', step: 'a', attempt: 1 },
        stepText('a', 'first'),
        { type: 'step_end', step: 'a', outcome: 'failed', error: 'timeout' },
        { type: 'step_start', step: 'a', attempt: 2 },
        stepText('a', 'second'),
        { type: 'step_end', step: 'a', outcome: 'completed', output: 'second' },
        { type: 'run_end', outcome: 'completed' },
      ]),
    );
    expect(parts).toMatchObject([
      { kind: 'start' },
      { kind: 'step', attempt: 1, turns: [{ text: 'first' }], end: { outcome: 'failed' } },
      { kind: 'step', attempt: 2, turns: [{ text: 'second' }], end: { output: 'second' } },
      { kind: 'end' },
    ]);
  });

  it('recognizes an attempt interrupted by the exit of the host', () => {
    const parts = buildRunLog(
      numbered<RunEvent>([
        start,
        { type: 'step_start', step: 'a', attempt: 1 },
        { type: 'step_start', step: 'a', attempt: 2 },
        { type: 'step_end', step: 'a', outcome: 'completed' },
      ]),
    );
    expect(parts.slice(1)).toMatchObject([
      { attempt: 1, isCut: true },
      { attempt: 2, end: { outcome: 'completed' } },
    ]);
    expect(parts[2]).not.toHaveProperty('isCut');
  });

  it('shows steps without a start: skipped steps, and steps that only waited', () => {
    const parts = buildRunLog(
      numbered<RunEvent>([
        start,
        { type: 'step_waiting', step: 'ok', waiting_on: 'approval', pending_id: 'p1' },
        { type: 'step_end', step: 'ok', outcome: 'completed', output: true },
        { type: 'step_end', step: 'not', outcome: 'skipped' },
      ]),
    );
    expect(parts).toMatchObject([
      { kind: 'start' },
      { kind: 'waiting' },
      { kind: 'step', step: 'ok', attempt: undefined },
      { kind: 'step', step: 'not', end: { outcome: 'skipped' } },
    ]);
  });
});
