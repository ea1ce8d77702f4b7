import { describe, expect, it, vi } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import type { ChatModelEvent, ChatModelRequest } from '../../src/agent/chat-model.ts';
import type { TurnLoopResult } from '../../src/agent/services.ts';
import { maxOutputBytes } from '../../src/agent/turns/truncate-output.ts';
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
import { ManualClock } from '../support/manual-clock.ts';

const aborted = (result: TurnLoopResult) =>
  result.kind === 'aborted' ? [result.reason, result.message] : [result.kind === 'answer' && result.text];
const look = readTool('look', () => okOutput('a cat'));

describe('the turn loop', () => {
  it('runs the tool calls of a model and sends back their results', async () => {
    const world = turnWorld({
      steps: [toolCallAnswer('look', { at: 'it' }), textAnswer('A cat.', 3)],
      tools: [look],
    });
    const result = await world.run({ inputs: { note: 'plain', list: [1] } });
    expect(result).toEqual({
      kind: 'answer',
      text: 'A cat.',
      turns: 2,
      usage: { prompt_tokens: 2, completion_tokens: 4 },
    });
    expect(world.events).toEqual([
      { type: 'turn', n: 1 },
      { type: 'usage', prompt_tokens: 1, completion_tokens: 1 },
      { type: 'tool_call', call_id: 'call_1_1', tool: 'look', arguments: { at: 'it' } },
      { type: 'tool_result', call_id: 'call_1_1', ok: true, output: 'a cat', truncated: false },
      { type: 'turn', n: 2 },
      { type: 'delta', text: 'A cat.' },
      { type: 'usage', prompt_tokens: 1, completion_tokens: 3 },
      { type: 'answer', text: 'A cat.', turns: 2, usage: { prompt_tokens: 2, completion_tokens: 4 } },
    ]);
    expect(world.chatModel.requests[1]?.messages).toEqual([
      { role: 'system', content: 'Work.' },
      { role: 'user', content: 'Go.\n\nnote:\nplain\n\nlist:\n[\n  1\n]' },
      { role: 'assistant', content: '', calls: [{ id: 'call_1_1', name: 'look', arguments: '{"at":"it"}' }] },
      { role: 'tool', callId: 'call_1_1', name: 'look', content: 'a cat' },
    ]);
  });

  it('runs calls that only read side by side, and changes alone and in their order', async () => {
    const seen: string[] = [];
    let reading = 0;
    let together = Promise.withResolvers<void>();
    // Each waits for the other two: one by one, they would wait for ever.
    const look3 = readTool('look', async ({ n }) => {
      reading += 1;
      if (reading === 3) together.resolve();
      await together.promise;
      await new Promise((resolve) => setTimeout(resolve, 10 - Number(n)));
      return okOutput(`look ${Number(n)}`);
    });
    const write = changeTool('write', ({ n }) => {
      seen.push(`write ${Number(n)} after ${reading} reads`);
      reading = 0;
      together = Promise.withResolvers();
      return Promise.resolve(okOutput('written'));
    });
    const call = (name: string, n: number): ChatModelEvent => ({
      type: 'call',
      call: { id: 'same', name, arguments: `{"n":${n}}` },
    });
    const end: ChatModelEvent = { type: 'end', finish: 'tool_calls' };
    const calls = [
      ...[1, 2, 3].map((n) => call('look', n)),
      call('write', 4),
      call('write', 5),
      ...[6, 7, 8].map((n) => call('look', n)),
    ];
    const world = turnWorld({ steps: [[...calls, end], textAnswer('ok')], tools: [look3, write] });
    await world.run();
    expect(seen).toEqual(['write 4 after 3 reads', 'write 5 after 0 reads']);
    const ids = ['same', ...[2, 3, 4, 5, 6, 7, 8].map((n) => `call_1_${n}`)];
    expect(new Set(world.results().map(({ call_id }) => call_id))).toEqual(new Set(ids));
    // The model gets the results in the order of its calls.
    const results = world.chatModel.requests[1]?.messages.filter(({ role }) => role === 'tool');
    expect(results?.map((message) => (message.role === 'tool' ? message.callId : ''))).toEqual(ids);
    expect(results?.map(({ content }) => content).slice(0, 3)).toEqual(['look 1', 'look 2', 'look 3']);
  });

  it('reports every violation of the arguments, and runs nothing', async () => {
    const run = vi.fn(() => okOutput(''));
    const schema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      properties: { path: { type: 'string', pattern: '^(a+)+$' }, many: { type: 'integer' } },
      required: ['path'],
      additionalProperties: false,
    };
    const evil = `${'a'.repeat(5000)}!`;
    const world = turnWorld({
      steps: [
        toolCallAnswer('read', { path: evil, many: 'x', more: 1 }),
        toolCallAnswer('read', '{"path"'),
        toolCallAnswer('read', '[]'),
        toolCallAnswer('read', `${'['.repeat(500)}${']'.repeat(500)}`),
        textAnswer('done'),
      ],
      tools: [readTool('read', run, schema)],
    });
    await world.run();
    expect(run).not.toHaveBeenCalled();
    const [first, ...others] = world.results();
    expect(first?.ok).toBe(false);
    for (const part of ["'more'", 'path: must match', 'many: must be integer'])
      expect(first?.output).toContain(part);
    expect(others.map(({ output }) => /must be (?:one|a) JSON object/.test(output))).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('accepts any arguments for a schema that cannot be compiled', async () => {
    const schema = { type: 'object', properties: { a: { $ref: 'https://example.invalid/x' } } };
    const world = turnWorld({
      steps: [toolCallAnswer('any', { a: 1 }), textAnswer('ok')],
      tools: [readTool('any', () => okOutput('ran'), schema)],
    });
    await world.run();
    expect(world.results()[0]).toMatchObject({ ok: true, output: 'ran' });
  });

  it('neither offers nor runs tools that are not granted', async () => {
    const secret = vi.fn(() => okOutput('secret'));
    const world = turnWorld({
      steps: [toolCallAnswer('hidden'), toolCallAnswer('nothing'), textAnswer('ok')],
      tools: [look, readTool('hidden', secret)],
      agent: { grants: { tools: ['look'], read: [], write: [], network: [], auto_approve: ['*'] } },
    });
    await world.run();
    expect(secret).not.toHaveBeenCalled();
    expect(world.chatModel.requests[0]?.tools.map(({ name }) => name)).toEqual(['look']);
    expect(world.results().map(({ ok, output }) => [ok, output])).toEqual([
      [false, "There is no tool 'hidden' for you. Your tools: look."],
      [false, "There is no tool 'nothing' for you. Your tools: look."],
    ]);
  });

  it('discloses no details of an unexpected tool error', async () => {
    const broken = readTool('broken', () => Promise.reject(new Error('/secret/path')));
    const refusing = readTool('refusing', () =>
      Promise.reject(new AgentError('invalid', 'x', 'It is locked.')),
    );
    const world = turnWorld({
      steps: [toolCallAnswer('broken'), toolCallAnswer('refusing'), textAnswer('ok')],
      tools: [broken, refusing],
    });
    await world.run();
    expect(world.results().map(({ output }) => output)).toEqual([
      "broken failed; the host's log says why.",
      'It is locked.',
    ]);
    expect(world.faults).toHaveLength(1);
  });

  it('cuts long outputs', async () => {
    const world = turnWorld({
      steps: [toolCallAnswer('print'), textAnswer('ok')],
      tools: [readTool('print', () => okOutput('ä'.repeat(1_000_000)))],
    });
    await world.run();
    const [result] = world.results();
    expect(result?.truncated).toBe(true);
    expect(Buffer.byteLength(result?.output ?? '')).toBeLessThanOrEqual(maxOutputBytes);
    expect(result?.output).not.toContain('\uFFFD');
    expect(result?.output).toMatch(/^ä{8000,}\n\(\d+ of 2000000 bytes left out\)\nä{8000,}$/);
  });

  it('reports why a tool is unavailable', async () => {
    const off = { ...look, unavailable: () => 'there is no sandbox' };
    const world = turnWorld({ steps: [toolCallAnswer('look'), textAnswer('ok')], tools: [off] });
    await world.run();
    expect(world.results()[0]?.output).toBe('look cannot run at the moment: there is no sandbox');
  });

  it('forces a tool call in the first turn only, and refuses to start without the tool', async () => {
    const world = turnWorld({
      steps: [toolCallAnswer('look'), textAnswer('ok')],
      tools: [look],
      agent: { tool_choice: { name: 'look' } },
    });
    await world.run();
    expect(world.chatModel.requests.map(({ toolChoice }) => toolChoice)).toEqual([{ name: 'look' }, 'auto']);
    for (const tool_choice of [{ name: 'gone' }, 'required'] as const) {
      const without = turnWorld({ steps: [textAnswer('ok')], agent: { tool_choice } });
      expect(aborted(await without.run())).toEqual(['error', expect.stringContaining('tool_choice')]);
      expect(without.chatModel.requests).toEqual([]);
    }
  });
});

const waiting = '{"status": "waits for a person", "id": "p1", "done": false}';

describe('changes of the turn loop', () => {
  const write = changeTool('write');

  it('stages a change, and a task continues', async () => {
    const world = turnWorld({ steps: [toolCallAnswer('write'), textAnswer('staged')], tools: [write] });
    const beforeEffect = vi.fn();
    await world.run({ beforeEffect });
    expect(world.done).toEqual(['stage write']);
    expect(beforeEffect).not.toHaveBeenCalled();
    expect(world.types()).toEqual(
      'turn usage tool_call staged tool_result turn delta usage answer'.split(' '),
    );
    expect(world.results()[0]?.output).toBe(waiting);
  });

  it('applies automatically approved changes at once, and awaits beforeEffect first', async () => {
    const grants = { tools: ['*'], read: [], write: [], network: [], auto_approve: ['wr*'] };
    const world = turnWorld({
      steps: [toolCallAnswer('write'), textAnswer('ok')],
      tools: [write],
      agent: { grants },
    });
    await world.run({ beforeEffect: () => Promise.resolve(void world.done.push('told')) });
    expect(world.done).toEqual(['told', 'apply write']);
    expect(world.results()[0]).toMatchObject({ ok: true, output: 'applied at once' });
  });

  it('waits for the decision in a step, with the deadline paused', async () => {
    const clock = new ManualClock();
    const decision = () => {
      clock.pass(10_000);
      return Promise.resolve({ state: 'applied', output: okOutput('written') } as const);
    };
    const world = turnWorld({
      steps: [toolCallAnswer('write'), textAnswer('ok')],
      tools: [write],
      decision,
      clock,
    });
    const result = await world.run({ onStaged: 'wait', limits: { timeout_secs: 5 } });
    expect(result.kind).toBe('answer');
    expect(world.results()[0]).toMatchObject({ ok: true, output: 'written' });
  });

  it.each([
    ['discarded', 'A person declined this change; it was not made.'],
    ['expired', 'Nobody decided on this change in time; it was not made.'],
  ] as const)('tells the model of a change that was %s, and no note', async (state, output) => {
    const decision = () => Promise.resolve({ state });
    const world = turnWorld({ steps: [toolCallAnswer('write'), textAnswer('ok')], tools: [write], decision });
    await world.run({ onStaged: 'wait' });
    expect(world.results()[0]).toMatchObject({ ok: false, output });
  });

  it('stages nothing when the tool refuses', async () => {
    const refusal = { ok: false, output: 'outside of the grants', truncated: false };
    const tool = changeTool('write', () => Promise.resolve(refusal));
    const world = turnWorld({ steps: [toolCallAnswer('write'), textAnswer('ok')], tools: [tool] });
    await world.run();
    expect(world.done).toEqual([]);
    expect(world.results()[0]?.output).toBe('outside of the grants');
  });

  it('runs nothing after the session is revoked', async () => {
    let revoked = false;
    const first = readTool('first', () => {
      revoked = true;
      return okOutput('');
    });
    const world = turnWorld({
      steps: [toolCallAnswer('first'), toolCallAnswer('write'), textAnswer('ok')],
      tools: [first, write],
      revoked: () => revoked,
    });
    expect(aborted(await world.run())).toEqual(['error', expect.stringContaining('revoked')]);
    expect(world.done).toEqual([]);
    expect(world.results().at(-1)?.ok).toBe(false);
  });
});

describe('the end of the turn loop', () => {
  it('comes when no turns are left', async () => {
    const world = turnWorld({
      steps: [toolCallAnswer('look')],
      tools: [look],
      agent: { limits: { max_turns: 3 } },
    });
    expect(aborted(await world.run())).toEqual([
      'budget',
      'There was no answer after 3 turns (limits.max_turns).',
    ]);
    const request = turnWorld({
      steps: [toolCallAnswer('look')],
      tools: [look],
      agent: { limits: { max_turns: 3 } },
    });
    expect((await request.run({ limits: { max_turns: 1 } })).turns).toBe(1);
  });

  it('comes when no tokens are left, and no request exceeds the rest', async () => {
    const world = turnWorld({
      steps: [toolCallAnswer('look', {}, 60), toolCallAnswer('look', {}, 40)],
      tools: [look],
    });
    const result = await world.run({ limits: { max_tokens: 100 } });
    expect(world.chatModel.requests.map(({ maxTokens }) => maxTokens)).toEqual([100, 40]);
    expect(aborted(result)).toEqual([
      'budget',
      'There was no complete answer within 100 tokens (limits.max_tokens).',
    ]);
  });

  it('runs no call of an answer that exceeded the token budget', async () => {
    const run = vi.fn(() => okOutput(''));
    const world = turnWorld({ steps: [toolCallAnswer('look', {}, 101)], tools: [readTool('look', run)] });
    expect(aborted(await world.run({ limits: { max_tokens: 100 } }))[0]).toBe('budget');
    expect(run).not.toHaveBeenCalled();
  });

  it('estimates tokens of a model that reports no usage, and discloses no usage', async () => {
    const step: ChatModelEvent[] = [
      { type: 'call', call: { id: '', name: 'look', arguments: `{"a":"${'x'.repeat(400)}"}` } },
      { type: 'end', finish: 'tool_calls' },
    ];
    const world = turnWorld({ steps: [step], tools: [look] });
    const result = await world.run({ limits: { max_tokens: 150 } });
    expect(result).toMatchObject({ kind: 'aborted', reason: 'budget', turns: 2 });
    expect(result.usage).toBeUndefined();
    expect(world.types()).not.toContain('usage');
  });

  it('discloses no usage when a turn ended before its usage was reported', async () => {
    const clock = new ManualClock();
    const hang = async function* (): AsyncGenerator<ChatModelEvent, void, undefined> {
      yield* [];
      clock.pass(1000);
      await new Promise(() => undefined);
    };
    for (const steps of [[hang], [toolCallAnswer('look'), hang]]) {
      const result = await turnWorld({ steps, tools: [look], clock }).run({ limits: { timeout_secs: 0.1 } });
      expect(result).toMatchObject({ kind: 'aborted', reason: 'timeout', turns: steps.length });
      expect(result.usage).toBeUndefined();
    }
  });

  it('cuts off the answer of a model that ignores its token limit', async () => {
    let told = 0;
    const endless = async function* (): AsyncGenerator<ChatModelEvent, void, undefined> {
      for (; told < 1000; told++) yield await Promise.resolve({ type: 'delta', text: 'x'.repeat(100) });
    };
    const world = turnWorld({ steps: [endless] });
    const result = await world.run({ limits: { max_tokens: 100 } });
    expect(aborted(result)[0]).toBe('budget');
    expect(told).toBeLessThan(25);
  });

  it('comes when the database fails, even during a tool call', async () => {
    const full = new StoreError('storage_full', 'the disk is full');
    const broken = changeTool('write', () => Promise.reject(full));
    const world = turnWorld({ steps: [toolCallAnswer('write'), textAnswer('done')], tools: [broken] });
    expect(aborted(await world.run())).toEqual([
      'error',
      'The host could not record what was done, because the disk is full.',
    ]);
    const unknown = turnWorld({
      steps: [toolCallAnswer('look')],
      tools: [look],
      revoked: () => {
        throw full;
      },
    });
    expect(aborted(await unknown.run())[0]).toBe('error');
    expect(unknown.results()).toEqual([]);
  });

  it('interrupts a hanging tool', async () => {
    const clock = new ManualClock();
    const hung = readTool('hung', () => {
      clock.pass(1000);
      return new Promise(() => undefined);
    });
    const world = turnWorld({ steps: [toolCallAnswer('hung')], tools: [hung], clock });
    expect(aborted(await world.run({ limits: { timeout_secs: 0.1 } }))).toEqual([
      'timeout',
      'The time limit of 0.1 seconds was reached (limits.timeout_secs).',
    ]);
  });

  it('interrupts a hanging model', async () => {
    const clock = new ManualClock();
    async function* hang(): AsyncGenerator<ChatModelEvent, void, undefined> {
      yield { type: 'delta', text: 'so' };
      clock.pass(1000);
      await new Promise(() => undefined);
    }
    const world = turnWorld({ steps: [hang], clock });
    expect(aborted(await world.run({ limits: { timeout_secs: 0.1 } }))[0]).toBe('timeout');
    expect(world.types()).toEqual(['turn', 'delta', 'aborted']);
  });

  it('comes when the host stops, in any state', async () => {
    const stopping = new AbortController();
    const hung = readTool('hung', () => {
      stopping.abort();
      return new Promise(() => undefined);
    });
    const world = turnWorld({ steps: [toolCallAnswer('hung')], tools: [hung] });
    expect(aborted(await world.run({}, stopping.signal))).toEqual(['shutdown', 'The host was stopped.']);
    const because = AbortSignal.abort(new AgentError('conflict', 'cancelled', 'The run was cancelled.'));
    expect(aborted(await world.run({}, because))).toEqual(['error', 'The run was cancelled.']);
  });

  it('comes when a model repeats the same failing call', async () => {
    const failing = readTool('failing', () => ({ ok: false, output: 'no', truncated: false }));
    const world = turnWorld({ steps: [toolCallAnswer('failing', { a: 1 })], tools: [failing] });
    const result = await world.run();
    expect(aborted(result)).toEqual([
      'budget',
      'The model made the same call of failing 4 times, and it always failed (limits.max_repeated_failures).',
    ]);
    expect(result.turns).toBe(4);
  });

  it('does not count a failure from before a change', async () => {
    const check = readTool('check', () => ({ ok: false, output: 'no', truncated: false }));
    const edit = changeTool('edit');
    const rounds = Array.from({ length: 6 }, () => [toolCallAnswer('check'), toolCallAnswer('edit')]).flat();
    const grants = { tools: ['*'], read: [], write: [], network: [], auto_approve: ['*'] };
    const world = turnWorld({
      steps: [...rounds, textAnswer('ok')],
      tools: [check, edit],
      agent: { grants },
    });
    expect(await world.run()).toMatchObject({ kind: 'answer', turns: 13 });
  });

  it('comes after as many failures as the agent or the request says', async () => {
    const failing = readTool('failing', () => ({ ok: false, output: 'no', truncated: false }));
    const world = turnWorld({ steps: [toolCallAnswer('failing')], tools: [failing] });
    expect((await world.run({ limits: { max_repeated_failures: 2 } })).turns).toBe(2);
  });

  it('reports errors of a model or gateway, and no details of unexpected errors', async () => {
    const told = turnWorld({ steps: [() => failingModel(new AgentError('unavailable', 'x', 'No model.'))] });
    expect(aborted(await told.run())).toEqual(['error', 'No model.']);
    const untold = turnWorld({ steps: [() => failingModel(new Error('/internal'))] });
    expect(aborted(await untold.run())).toEqual(['error', 'The host failed; its log says why.']);
    expect(untold.faults).toHaveLength(1);
    const broken = turnWorld({ steps: [[{ type: 'delta', text: 'half' }]] });
    expect(aborted(await broken.run())).toEqual(['error', 'The model did not complete its answer.']);
  });

  it('waits as long as a busy model asks for, up to a limit', async () => {
    const busy = (retryAfterMs: number) => () =>
      failingModel(new AgentError('too_many', 'busy', 'Busy.', { retryAfterMs }));
    const world = turnWorld({ steps: [busy(1500), textAnswer('now')] });
    const begun = performance.now();
    expect(await world.run()).toMatchObject({ kind: 'answer', text: 'now' });
    expect(performance.now() - begun).toBeGreaterThan(1490);
    expect(world.events.find(({ type }) => type === 'retrying')).toMatchObject({
      message: 'Busy.',
      after_ms: 1500,
    });
    const never = turnWorld({ steps: [busy(3_600_000)] });
    expect(aborted(await never.run())).toEqual(['error', 'Busy.']);
  });

  it('retries a busy model', async () => {
    const busy = () => failingModel(new AgentError('too_many', 'busy', 'Busy.'));
    const world = turnWorld({ steps: [busy, textAnswer('now')] });
    expect(await world.run()).toMatchObject({ kind: 'answer', text: 'now', turns: 1 });
  });

  it('asks again after a cut-off answer, a limited number of times', async () => {
    const cut: ChatModelEvent[] = [
      { type: 'delta', text: 'so long' },
      { type: 'end', finish: 'length', usage: { promptTokens: 1, completionTokens: 16_384 } },
    ];
    const world = turnWorld({ steps: [cut, textAnswer('short')] });
    expect(await world.run()).toMatchObject({ kind: 'answer', text: 'short' });
    expect(world.chatModel.requests[1]?.messages.at(-1)?.content).toContain('cut off');
    const always = turnWorld({ steps: [cut] });
    expect(aborted(await always.run())).toEqual(['error', expect.stringContaining('3 unusable answers')]);
  });

  it('shortens a conversation that is too long, oldest results first', async () => {
    const full = (limit: number) => () =>
      failingModel(new AgentError('invalid', 'context_length_exceeded', `more than ${limit}`));
    const big = readTool('big', ({ n }) => okOutput(String(n).repeat(1000)));
    const world = turnWorld({
      steps: [
        toolCallAnswer('big', { n: 1 }),
        toolCallAnswer('big', { n: 2 }),
        full(1),
        full(2),
        textAnswer('ok'),
      ],
      tools: [big],
    });
    expect(await world.run()).toMatchObject({ kind: 'answer', turns: 3 });
    const lengths = world.chatModel.requests
      .slice(2)
      .map(({ messages }) =>
        messages.filter(({ role }) => role === 'tool').map(({ content }) => content.length),
      );
    expect(lengths[0]).toEqual([1000, 1000]);
    expect(lengths[1]?.[0]).toBeLessThan(200);
    expect(lengths[1]?.[1]).toBe(1000);
    expect(lengths[2]?.[1]).toBeLessThan(600);
    const never = turnWorld({ steps: [toolCallAnswer('big', { n: 1 }), full(1)], tools: [big] });
    expect(aborted(await never.run())).toEqual([
      'error',
      expect.stringMatching(/with the description of its tool, does not fit the context.*grant fewer tools/),
    ]);
  });

  it('asks again for JSON when the answer does not fit the format', async () => {
    const schema = { type: 'object', required: ['a'], properties: { a: { type: 'number' } } };
    const world = turnWorld({
      steps: [textAnswer('no json'), textAnswer('{"a":"x"}'), textAnswer('{"a":1}')],
    });
    const result = await world.run({ responseFormat: { type: 'json_schema', schema } });
    expect(result).toMatchObject({ kind: 'answer', text: '{"a":1}', turns: 3 });
    expect(world.chatModel.requests[2]?.messages.at(-1)?.content).toContain('a: must be number');
  });

  it('refuses too many calls in one answer', async () => {
    const call: ChatModelEvent = { type: 'call', call: { id: '', name: 'look', arguments: '{}' } };
    const step = [...Array.from({ length: 33 }, () => call), { type: 'end', finish: 'tool_calls' } as const];
    const world = turnWorld({ steps: [step], tools: [look] });
    expect(aborted(await world.run())).toEqual(['budget', expect.stringContaining('33 calls')]);
    expect(world.results()).toEqual([]);
  });
});

describe('a full context', () => {
  /** A model whose context holds so many characters of messages. */
  const limited = (limit: number, summary?: string) => {
    const requests: ChatModelRequest[] = [];
    let turns = 0;
    async function* step(request: ChatModelRequest): AsyncGenerator<ChatModelEvent, void, undefined> {
      requests.push({ ...request, messages: [...request.messages] });
      const isSummary = request.tools.length === 0;
      const length = request.messages.reduce((sum, { content }) => sum + content.length, 0);
      if (isSummary ? summary === undefined : length > limit)
        throw new AgentError('invalid', 'context_length_exceeded', 'too long');
      if (isSummary) {
        yield* textAnswer(summary ?? '', 5);
        return;
      }
      turns += 1;
      yield* turns <= 12 ? toolCallAnswer('look', { n: turns }) : textAnswer('Done.');
    }
    return { step, requests };
  };
  // Results of this length are not shortened.
  const short = readTool('look', ({ n }) => okOutput(`${String(n)} ${'x'.repeat(150)}`));

  it.each([
    ['by the model', 'We looked at several things.', /^We looked at several things\.$/],
    ['by rule where the model cannot', undefined, /^\d+ messages, which could not be summarized\.$/],
  ])('older messages are summarized %s, and the task goes on', async (_, summary, expected) => {
    const { step, requests } = limited(1500, summary);
    const world = turnWorld({ steps: [step], tools: [short] });
    const result = await world.run({ prompt: 'Look at all.' });
    expect(result).toMatchObject({ kind: 'answer', text: 'Done.', turns: 13 });
    const compacted = world.events.flatMap((event) => (event.type === 'compacted' ? [event] : []));
    expect(compacted.length).toBeGreaterThan(0);
    for (const event of compacted) expect(event.summary).toMatch(expected);
    const { messages } = requests.at(-1) ?? { messages: [] };
    expect(messages[0]).toEqual({ role: 'system', content: 'Work.' });
    expect(messages[1]?.content).toContain('Its summary:');
    expect(messages[1]?.content).toContain('(The last request, in full:)');
    // Each result still follows its call.
    for (const [index, message] of messages.entries())
      if (message.role === 'tool') expect(['assistant', 'tool']).toContain(messages[index - 1]?.role);
  });

  it.each([
    [400, 1],
    [40, 0],
  ])('of %i tokens that are left, a summary may take half', async (max_tokens, summaries) => {
    const { step, requests } = limited(1500, 'We looked.');
    await turnWorld({ steps: [step], tools: [short] }).run({ prompt: 'Look.', limits: { max_tokens } });
    const summaryRequests = requests.filter(({ tools }) => tools.length === 0);
    expect(summaryRequests.length > 0 ? 1 : 0).toBe(summaries);
    for (const { maxTokens } of summaryRequests) expect(maxTokens).toBeLessThanOrEqual(max_tokens / 2);
  });

  it('is no end to a task of 300 turns on 8,192 tokens', async () => {
    // Four characters a token, as in English.
    const limit = 4 * 8192;
    const lengths: number[] = [];
    async function* step(request: ChatModelRequest): AsyncGenerator<ChatModelEvent, void, undefined> {
      const texts = request.messages.map(({ content }) => content);
      const length = texts.join('').length;
      if (length > limit) throw new AgentError('invalid', 'context_length_exceeded', 'too long');
      lengths.push(length);
      const isSummary = request.tools.length === 0;
      // The number of the last call is in its result, or in the summary that replaced it.
      const numbers = texts.flatMap((text) => [...text.matchAll(/seen (\d+)/g)].map(([, n]) => Number(n)));
      const last = Math.max(0, ...numbers);
      if (isSummary) yield* textAnswer(`We have seen ${last}.`, 5);
      else yield* last < 299 ? toolCallAnswer('look', { n: last + 1 }) : textAnswer(`All of ${last} seen.`);
    }
    const long = readTool('look', ({ n }) => okOutput(`seen ${String(n)} ${'y'.repeat(3000)}`));
    const world = turnWorld({ steps: [step], tools: [long] });
    const result = await world.run({ prompt: 'Look at all.', limits: { max_turns: 400 } });
    expect(result).toMatchObject({ kind: 'answer', text: 'All of 299 seen.', turns: 300 });
    expect(world.types().filter((type) => type === 'tool_result')).toHaveLength(299);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(limit);
  });

  it('ends a task that not even a summary makes fit', async () => {
    const { step } = limited(10, 'A long summary that does not fit either.');
    const world = turnWorld({ steps: [step], tools: [short] });
    expect(aborted(await world.run({ prompt: 'Look at all.' }))).toEqual([
      'error',
      expect.stringContaining('does not fit the context'),
    ]);
  });
});

describe('the end of an answer', () => {
  const limits = { limits: { max_tokens: 10_000 } };

  it('that a content filter stopped ends the task, and its calls are not made', async () => {
    const world = turnWorld({
      steps: [
        [
          { type: 'delta', text: 'I will' },
          { type: 'call', call: { id: 'a', name: 'look', arguments: '{}' } },
          { type: 'end', finish: 'content_filter' },
        ],
      ],
      tools: [look],
    });
    expect(aborted(await world.run())).toEqual(['error', expect.stringContaining('content filter')]);
    expect(world.results()).toEqual([]);
  });

  it('is asked for again where the model failed for now, and what came of it is void', async () => {
    const passing = new AgentError('unavailable', 'broke_off', 'Broke off.', { isPassing: true });
    async function* cut(): AsyncGenerator<ChatModelEvent, void, undefined> {
      yield { type: 'delta', text: 'half an ' };
      throw passing;
    }
    const lost = turnWorld({ steps: [cut, textAnswer('ok')] });
    expect(await lost.run()).toMatchObject({ kind: 'answer', text: 'ok', turns: 1 });
    expect(lost.types()).toEqual(['turn', 'delta', 'retrying', 'delta', 'usage', 'answer']);
    expect(lost.chatModel.requests[1]?.messages).toEqual(lost.chatModel.requests[0]?.messages);
    // Nothing is said of a short wait before anything came.
    const reset = turnWorld({ steps: [() => failingModel(passing), textAnswer('ok')] });
    await reset.run();
    expect(reset.types()).toEqual(['turn', 'delta', 'usage', 'answer']);
    const away = () => failingModel(new AgentError('unavailable', 'gateway_unreachable', 'away'));
    const gone = turnWorld({ steps: [away, textAnswer('ok')] });
    expect(aborted(await gone.run())).toEqual(['error', 'away']);
  });

  it.each([
    ['of the model itself, keeps what was read', 100, true],
    ['of the context, makes room', undefined, false],
  ])('at a limit %s', async (_, maxTokens, isKept) => {
    const long = readTool('look', () => okOutput('x'.repeat(1000)));
    const cutOff: ChatModelEvent[] = [
      { type: 'delta', text: 'It' },
      {
        type: 'end',
        finish: 'length',
        usage: { promptTokens: 1, completionTokens: 100 },
        ...(maxTokens === undefined ? {} : { maxTokens }),
      },
    ];
    const world = turnWorld({ steps: [toolCallAnswer('look'), cutOff, textAnswer('ok')], tools: [long] });
    await world.run(limits);
    const result = world.chatModel.requests.at(-1)?.messages.find(({ role }) => role === 'tool');
    expect(result?.content === 'x'.repeat(1000)).toBe(isKept);
  });
});
