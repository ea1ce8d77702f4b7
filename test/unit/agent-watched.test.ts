/** Spans of an agent's turns and tool calls. */
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import type { PlannerEvent } from '../../src/agent/planner.ts';
import type { Decision } from '../../src/agent/services.ts';
import type { ToolOutput } from '../../src/agent/tool.ts';
import { StoreError } from '../../src/store/index.ts';
import { breaking, calls, changeTool, good, readTool, says, turnWorld } from '../support/turn-world.ts';
import { saidBy, watching } from '../support/watching.ts';
import { ManualClock } from '../support/manual-clock.ts';

type World = Parameters<typeof turnWorld>[0];
const watched = (world: World, kept: Parameters<typeof watching>[0] = []) => {
  const seen = watching(kept);
  return { ...seen, ...turnWorld({ ...world, watch: seen.watch }) };
};
const look = readTool('look', () => good('a cat'));
const output = (ok: boolean, text: string): ToolOutput => ({ ok, output: text, truncated: false });

describe('spans of turns', () => {
  it('have the attributes of each answer, and tool calls as siblings', async () => {
    const thinking: PlannerEvent[] = [{ type: 'reasoning', text: 'Hm.' }, ...calls('look', { at: 'it' }, 5)];
    const { run, of, endings, begun } = watched({ steps: [thinking, says('A cat.', 3)], tools: [look] });
    await run();
    const [task] = of('task');
    const model = { agent: 'a', engine: 'gateway', model: 'scripted', firstTokenMs: expect.any(Number) };
    expect(of('turn').map(({ id, facts }) => ({ id, ...facts }))).toEqual([
      { id: 't1:1', ...model, promptTokens: 1, completionTokens: 5, finish: 'tool_calls', calls: 1 },
      { id: 't1:2', ...model, promptTokens: 1, completionTokens: 3, finish: 'stop', calls: 0 },
    ]);
    expect(of('tool').map(({ id, facts }) => ({ id, ...facts }))).toEqual([
      { id: 't1:call_1_1', tool: 'look', agent: 'a', callId: 'call_1_1', toolKind: 'read' },
    ]);
    expect([endings('turn'), endings('tool')]).toEqual([['ok', 'ok'], ['ok']]);
    for (const work of [...of('turn'), ...of('tool')]) expect(work.parent).toBe(task);
    expect(begun.every(({ said }) => said === undefined)).toBe(true);
  });

  it('omit unknown values: usage, or the time of a first token', async () => {
    const call: PlannerEvent = { type: 'call', call: { id: 'c', name: 'look', arguments: '{}' } };
    const { run, of } = watched({
      steps: [[call, { type: 'end', finish: 'tool_calls' }], says('done')],
      tools: [look],
    });
    await run();
    expect(of('turn')[0]?.facts).toEqual({
      agent: 'a',
      engine: 'gateway',
      model: 'scripted',
      finish: 'tool_calls',
      calls: 1,
    });
  });

  it('have transcripts, with each text once, when a sink wants them', async () => {
    const thinking: PlannerEvent[] = [
      { type: 'reasoning', text: 'H' },
      { type: 'reasoning', text: 'm.' },
      { type: 'delta', text: 'Let me see.' },
      ...calls('look', { at: 'it' }),
    ];
    const steps = [thinking, says('no JSON'), says('{}')];
    const { run, of } = watched({ steps, tools: [look] }, ['agent']);
    await run({ inputs: { note: 'n' }, responseFormat: { type: 'json' } });
    expect(of('task').map(saidBy)).toEqual([
      ['system: Work.', 'user: Go.\n\nnote:\nn', expect.stringMatching(/^user: .*JSON/)],
    ]);
    expect(of('turn').map(saidBy)).toEqual([
      ['reasoning: Hm.', 'assistant: Let me see.'],
      ['assistant: no JSON'],
      ['assistant: {}'],
    ]);
    expect(of('tool').map(saidBy)).toEqual([['tool_call look: {"at":"it"}', 'tool look: a cat']]);
  });

  it('have the transcript of an interrupted answer', async () => {
    async function* breaks(): AsyncGenerator<PlannerEvent, void, undefined> {
      yield { type: 'delta', text: 'Half' };
      yield* breaking(new AgentError('unavailable', 'model_gone', 'gone'));
    }
    const { run, of, endings } = watched({ steps: [breaks] }, ['agent']);
    await run();
    expect(endings('turn')).toEqual(['failed model_gone']);
    expect(of('turn').map(saidBy)).toEqual([['assistant: Half']]);
    expect(of('turn')[0]?.facts).not.toHaveProperty('finish');
  });

  it('pass their trace context to the model', async () => {
    const trace = (n: number) => `00-${'1'.repeat(32)}-${String(n).padStart(16, '0')}-01`;
    const { run, watch, planner } = watched({ steps: [says('ok')] });
    const work = watch.begin('task', 't2', { agent: 'a', ...planner.route }, { traceparent: trace(7) });
    await run({ within: { work, ids: 't2' } });
    await run();
    expect(planner.requests.map(({ traceparent }) => traceparent)).toEqual([trace(7), undefined]);
    expect(planner.requests[1]).not.toHaveProperty('traceparent');
  });
});

describe('results of turn spans', () => {
  const clock = new ManualClock();
  const hang = async function* (): AsyncGenerator<PlannerEvent, void, undefined> {
    yield* [];
    clock.pass(1000);
    await new Promise(() => undefined);
  };
  const within: [name: string, steps: World['steps'], ends: (string | undefined)[], limits?: object][] = [
    ['a bug', [() => breaking(new TypeError('bug'))], ['failed internal_error']],
    ['the time is up', [hang], ['failed timeout'], { timeout_secs: 0.05 }],
    ['no turn is left', [calls('look'), calls('look', { n: 2 })], ['ok', 'ok'], { max_turns: 2 }],
    ['too many tokens', [says('x', 9)], ['ok'], { max_tokens: 8 }],
    ['an answer that is never fit', [[{ type: 'end', finish: 'length' }]], ['ok', 'ok', 'ok']],
    ['no end', [[{ type: 'delta', text: 'x' }]], ['failed model_broke_off']],
  ];
  it.each(within)('%s', async (_, steps, ends, limits) => {
    const { run, endings, of, ended } = watched({ steps, tools: [look], clock });
    expect((await run(limits ? { limits } : {})).kind).toBe('aborted');
    expect(endings('turn')).toEqual(ends);
    expect(ended).toHaveLength(of('turn').length + of('tool').length);
  });

  it('the host stops, or the parent is ended', async () => {
    for (const [reason, code] of [
      [new Error('the host was stopped'), 'shutdown'],
      [new AgentError('conflict', 'cancelled', 'over'), 'cancelled'],
    ] as const) {
      const { run, endings, events } = watched({ steps: [hang] });
      const stopping = new AbortController();
      const running = run({}, stopping.signal);
      await expect.poll(() => events.length).toBe(1);
      stopping.abort(reason);
      await running;
      expect(endings('turn')).toEqual([`failed ${code}`]);
    }
  });

  it('a failing store', async () => {
    const { loop, watch, endings, planner } = watched({ steps: [says('x')] });
    const work = watch.begin('task', 't1', { agent: 'a', ...planner.route });
    const request = {
      agent: { name: 'a', instructions: '', model: 'm', grants },
      prompt: 'Go.',
      cwd: undefined,
      about: {},
      within: { work, ids: 't1' },
      onStaged: 'go_on' as const,
    };
    const full = new StoreError('storage_full', 'the disk is full');
    const emit = ({ type }: { type: string }) =>
      type === 'delta' ? Promise.reject(full) : Promise.resolve();
    await loop.run(request, emit, new AbortController().signal);
    expect(endings('turn')).toEqual(['failed storage_full']);
  });
});

const grants = { tools: ['*'], read: [], write: [], network: [], auto_approve: [] };

describe('spans of tool calls', () => {
  const failing = (error: Error) =>
    readTool('bad', () => {
      throw error;
    });
  const outcomes: [name: string, world: Omit<World, 'steps'>, call: string, ending: string, kind: string][] =
    [
      ['a tool that it does not have', {}, 'none', 'refused unknown_tool', 'unknown'],
      [
        'a tool that cannot run',
        { tools: [{ ...look, unavailable: () => 'it rests' }] },
        'look',
        'failed tool_unavailable',
        'read',
      ],
      [
        'arguments that do not fit',
        { tools: [readTool('look', () => good(''), { type: 'object', required: ['x'] })] },
        'look',
        'refused invalid_arguments',
        'read',
      ],
      [
        'a refusal of the host',
        { tools: [failing(new AgentError('not_found', 'no_such_file', 'none'))] },
        'bad',
        'refused no_such_file',
        'read',
      ],
      [
        'no time for it',
        { tools: [failing(new AgentError('too_many', 'busy', 'busy'))] },
        'bad',
        'failed busy',
        'read',
      ],
      ['a bug of ours', { tools: [failing(new TypeError('bug'))] }, 'bad', 'failed internal_error', 'read'],
      [
        'a failure of the tool',
        { tools: [readTool('bad', () => output(false, 'no'))] },
        'bad',
        'failed tool_failed',
        'read',
      ],
      [
        'a change at once',
        { tools: [changeTool('write')], agent: { grants: { ...grants, auto_approve: ['write'] } } },
        'write',
        'ok',
        'change',
      ],
      [
        'no proposal',
        { tools: [changeTool('write', () => Promise.resolve(output(false, 'nothing to do')))] },
        'write',
        'failed tool_failed',
        'change',
      ],
      [
        'a revoked session',
        { tools: [look], revoked: () => true },
        'look',
        'refused session_revoked',
        'read',
      ],
    ];
  it.each(outcomes)('%s', async (_, world, call, ending, toolKind) => {
    const { run, endings, of } = watched({ ...world, steps: [calls(call), says('done')] });
    await run();
    expect(endings('tool')).toEqual([ending]);
    expect(of('tool')[0]?.facts).toMatchObject({ tool: call, toolKind });
    expect(of('tool')[0]?.facts).not.toHaveProperty('staged');
  });

  it('a staged change of a task that continues', async () => {
    const { run, endings, of } = watched({
      tools: [changeTool('write')],
      steps: [calls('write'), says('ok')],
    });
    await run();
    expect(endings('tool')).toEqual(['ok']);
    expect(of('tool')[0]?.facts.staged).toBe(true);
  });

  const decisions: [Decision, string][] = [
    [{ state: 'applied', output: output(true, 'done') }, 'ok'],
    [{ state: 'applied', output: output(false, 'it did not work') }, 'failed tool_failed'],
    [{ state: 'discarded' }, 'refused declined'],
    [{ state: 'expired' }, 'refused expired'],
    [{ state: 'failed' }, 'failed apply_failed'],
  ];
  it.each(decisions)('a staged change of a step that waits: %o', async (decision, ending) => {
    const steps = [calls('write'), says('ok')];
    const { run, endings, of } = watched({
      tools: [changeTool('write')],
      steps,
      decision: () => Promise.resolve(decision),
    });
    await run({ onStaged: 'wait' });
    expect(endings('tool')).toEqual([ending]);
    expect(of('tool')[0]?.facts.staged).toBe(true);
  });

  it('a staged change of a waiting step when the host stops', async () => {
    const { run, endings, of, types } = watched({ tools: [changeTool('write')], steps: [calls('write')] });
    const stopping = new AbortController();
    const running = run({ onStaged: 'wait' }, stopping.signal);
    await expect.poll(types).toContain('staged');
    stopping.abort(new Error('the host was stopped'));
    await running;
    expect(endings('tool')).toEqual(['failed shutdown']);
    expect(of('tool')[0]?.facts.staged).toBe(true);
  });
});
