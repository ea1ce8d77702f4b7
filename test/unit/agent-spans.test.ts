/** Spans of an agent's turns and tool calls. */
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import type { ChatModelEvent } from '../../src/agent/chat-model.ts';
import type { ChangeDecision } from '../../src/agent/services.ts';
import type { ToolOutput } from '../../src/agent/tool.ts';
import { StoreError } from '../../src/store/index.ts';
import {
  failingModel,
  toolCallAnswer,
  changeTool,
  okOutput,
  readTool,
  textAnswer,
  turnWorld,
} from '../support/turn-world.ts';
import { transcriptLines, createSpanRecorder } from '../support/span-recorder.ts';
import { ManualClock } from '../support/manual-clock.ts';

type World = Parameters<typeof turnWorld>[0];
const watched = (world: World, kept: Parameters<typeof createSpanRecorder>[0] = []) => {
  const seen = createSpanRecorder(kept);
  return { ...seen, ...turnWorld({ ...world, tracer: seen.tracer }) };
};
const look = readTool('look', () => okOutput('a cat'));
const output = (ok: boolean, text: string): ToolOutput => ({ ok, output: text, truncated: false });

describe('spans of turns', () => {
  it('have the attributes of each answer, and tool calls as siblings', async () => {
    const thinking: ChatModelEvent[] = [
      { type: 'reasoning', text: 'Hm.' },
      ...toolCallAnswer('look', { at: 'it' }, 5),
    ];
    const {
      run,
      spansOf: of,
      spanResults: endings,
      started: begun,
    } = watched({ steps: [thinking, textAnswer('A cat.', 3)], tools: [look] });
    await run();
    const [task] = of('task');
    const model = { agent: 'a', engine: 'gateway', model: 'scripted', firstTokenMs: expect.any(Number) };
    expect(of('turn').map(({ id, attributes: facts }) => ({ id, ...facts }))).toEqual([
      { id: 't1:1', ...model, promptTokens: 1, completionTokens: 5, finish: 'tool_calls', calls: 1 },
      { id: 't1:2', ...model, promptTokens: 1, completionTokens: 3, finish: 'stop', calls: 0 },
    ]);
    expect(of('tool').map(({ id, attributes: facts }) => ({ id, ...facts }))).toEqual([
      { id: 't1:call_1_1', tool: 'look', agent: 'a', callId: 'call_1_1', toolKind: 'read' },
    ]);
    expect([endings('turn'), endings('tool')]).toEqual([['ok', 'ok'], ['ok']]);
    for (const span of [...of('turn'), ...of('tool')]) expect(span.parent).toBe(task);
    expect(begun.every(({ transcript }) => transcript === undefined)).toBe(true);
  });

  it('omit unknown values: usage, or the time of a first token', async () => {
    const call: ChatModelEvent = { type: 'call', call: { id: 'c', name: 'look', arguments: '{}' } };
    const { run, spansOf: of } = watched({
      steps: [[call, { type: 'end', finish: 'tool_calls' }], textAnswer('done')],
      tools: [look],
    });
    await run();
    expect(of('turn')[0]?.attributes).toEqual({
      agent: 'a',
      engine: 'gateway',
      model: 'scripted',
      finish: 'tool_calls',
      calls: 1,
    });
  });

  it('have transcripts, with each text once, when a sink wants them', async () => {
    const thinking: ChatModelEvent[] = [
      { type: 'reasoning', text: 'H' },
      { type: 'reasoning', text: 'm.' },
      { type: 'delta', text: 'Let me see.' },
      ...toolCallAnswer('look', { at: 'it' }),
    ];
    const steps = [thinking, textAnswer('no JSON'), textAnswer('{}')];
    const { run, spansOf: of } = watched({ steps, tools: [look] }, ['agent']);
    await run({ inputs: { note: 'n' }, responseFormat: { type: 'json' } });
    expect(of('task').map(transcriptLines)).toEqual([
      ['system: Work.', 'user: Go.\n\nnote:\nn', expect.stringMatching(/^user: .*JSON/)],
    ]);
    expect(of('turn').map(transcriptLines)).toEqual([
      ['reasoning: Hm.', 'assistant: Let me see.'],
      ['assistant: no JSON'],
      ['assistant: {}'],
    ]);
    expect(of('tool').map(transcriptLines)).toEqual([['tool_call look: {"at":"it"}', 'tool look: a cat']]);
  });

  it('have the transcript of an interrupted answer', async () => {
    async function* breaks(): AsyncGenerator<ChatModelEvent, void, undefined> {
      yield { type: 'delta', text: 'Half' };
      yield* failingModel(new AgentError('unavailable', 'model_gone', 'gone'));
    }
    const { run, spansOf: of, spanResults: endings } = watched({ steps: [breaks] }, ['agent']);
    await run();
    expect(endings('turn')).toEqual(['failed model_gone']);
    expect(of('turn').map(transcriptLines)).toEqual([['assistant: Half']]);
    expect(of('turn')[0]?.attributes).not.toHaveProperty('finish');
  });

  it('pass their trace context to the model', async () => {
    const trace = (n: number) => `00-${'1'.repeat(32)}-${String(n).padStart(16, '0')}-01`;
    const { run, tracer: watch, chatModel: planner } = watched({ steps: [textAnswer('ok')] });
    const span = watch.startSpan('task', 't2', { agent: 'a', ...planner.route }, { traceparent: trace(7) });
    await run({ trace: { span, idPrefix: 't2' } });
    await run();
    expect(planner.requests.map(({ traceparent }) => traceparent)).toEqual([trace(7), undefined]);
    expect(planner.requests[1]).not.toHaveProperty('traceparent');
  });
});

describe('results of turn spans', () => {
  const clock = new ManualClock();
  const hang = async function* (): AsyncGenerator<ChatModelEvent, void, undefined> {
    yield* [];
    clock.pass(1000);
    await new Promise(() => undefined);
  };
  const within: [name: string, steps: World['steps'], ends: (string | undefined)[], limits?: object][] = [
    ['a bug', [() => failingModel(new TypeError('bug'))], ['failed internal_error']],
    ['the time is up', [hang], ['failed timeout'], { timeout_secs: 0.05 }],
    [
      'no turn is left',
      [toolCallAnswer('look'), toolCallAnswer('look', { n: 2 })],
      ['ok', 'ok'],
      { max_turns: 2 },
    ],
    ['too many tokens', [textAnswer('x', 9)], ['ok'], { max_tokens: 8 }],
    ['an answer that is never fit', [[{ type: 'end', finish: 'length' }]], ['ok', 'ok', 'ok']],
    ['no end', [[{ type: 'delta', text: 'x' }]], ['failed model_broke_off']],
  ];
  it.each(within)('%s', async (_, steps, ends, limits) => {
    const { run, spanResults: endings, spansOf: of, ended } = watched({ steps, tools: [look], clock });
    expect((await run(limits ? { limits } : {})).kind).toBe('aborted');
    expect(endings('turn')).toEqual(ends);
    expect(ended).toHaveLength(of('turn').length + of('tool').length);
  });

  it('the host stops, or the parent is ended', async () => {
    for (const [reason, code] of [
      [new Error('the host was stopped'), 'shutdown'],
      [new AgentError('conflict', 'cancelled', 'over'), 'cancelled'],
    ] as const) {
      const { run, spanResults: endings, events } = watched({ steps: [hang] });
      const stopping = new AbortController();
      const running = run({}, stopping.signal);
      await expect.poll(() => events.length).toBe(1);
      stopping.abort(reason);
      await running;
      expect(endings('turn')).toEqual([`failed ${code}`]);
    }
  });

  it('a failing store', async () => {
    const {
      loop,
      tracer: watch,
      spanResults: endings,
      chatModel: planner,
    } = watched({ steps: [textAnswer('x')] });
    const span = watch.startSpan('task', 't1', { agent: 'a', ...planner.route });
    const request = {
      agent: { name: 'a', instructions: '', model: 'm', grants },
      prompt: 'Go.',
      cwd: undefined,
      owner: {},
      trace: { span, idPrefix: 't1' },
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
        { tools: [readTool('look', () => okOutput(''), { type: 'object', required: ['x'] })] },
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
    const {
      run,
      spanResults: endings,
      spansOf: of,
    } = watched({ ...world, steps: [toolCallAnswer(call), textAnswer('done')] });
    await run();
    expect(endings('tool')).toEqual([ending]);
    expect(of('tool')[0]?.attributes).toMatchObject({ tool: call, toolKind });
    expect(of('tool')[0]?.attributes).not.toHaveProperty('staged');
  });

  it('a staged change of a task that continues', async () => {
    const {
      run,
      spanResults: endings,
      spansOf: of,
    } = watched({
      tools: [changeTool('write')],
      steps: [toolCallAnswer('write'), textAnswer('ok')],
    });
    await run();
    expect(endings('tool')).toEqual(['ok']);
    expect(of('tool')[0]?.attributes.staged).toBe(true);
  });

  const decisions: [ChangeDecision, string][] = [
    [{ state: 'applied', output: output(true, 'done') }, 'ok'],
    [{ state: 'applied', output: output(false, 'it did not work') }, 'failed tool_failed'],
    [{ state: 'discarded' }, 'refused declined'],
    [{ state: 'expired' }, 'refused expired'],
    [{ state: 'failed' }, 'failed apply_failed'],
  ];
  it.each(decisions)('a staged change of a step that waits: %o', async (decision, ending) => {
    const steps = [toolCallAnswer('write'), textAnswer('ok')];
    const {
      run,
      spanResults: endings,
      spansOf: of,
    } = watched({
      tools: [changeTool('write')],
      steps,
      decision: () => Promise.resolve(decision),
    });
    await run({ onStaged: 'wait' });
    expect(endings('tool')).toEqual([ending]);
    expect(of('tool')[0]?.attributes.staged).toBe(true);
  });

  it('a staged change of a waiting step when the host stops', async () => {
    const {
      run,
      spanResults: endings,
      spansOf: of,
      types,
    } = watched({ tools: [changeTool('write')], steps: [toolCallAnswer('write')] });
    const stopping = new AbortController();
    const running = run({ onStaged: 'wait' }, stopping.signal);
    await expect.poll(types).toContain('staged');
    stopping.abort(new Error('the host was stopped'));
    await running;
    expect(endings('tool')).toEqual(['failed shutdown']);
    expect(of('tool')[0]?.attributes.staged).toBe(true);
  });
});
