/** Steps that consist of others: repeated steps, workflows within workflows, and steps side by side. */
import { expect, it, vi } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import { agents, PersistentWorld, runWorlds, step, summarizeEvents } from '../support/run-world.ts';

describeDatabases('composite steps', (url) => {
  const open = runWorlds();
  const world = async () => {
    const outside = new PersistentWorld();
    const at = await url();
    const start = () => open(outside, { url: at });
    return { outside, start, ...(await start()) };
  };
  const list = (name: string) => `[inputs.${name}]\ntype = "array"\n`;
  const parallel = (n: number) => `parallel = ${n}\n`;

  it('repeats a step for each item of a list, and outputs the list of outputs', async () => {
    const { outside, run, detail } = await world();
    const steps = [
      step('each', 'say {{index}}: {{item.name}} of {{inputs.files}}', 'foreach = "inputs.files"'),
      step('all', 'say {{steps.each.output}} {{steps.each.output.1}}', 'needs = ["each"]'),
    ];
    outside.define('w', `${list('files')}${agents}${steps.join('')}`);
    const files = [{ name: 'a' }, { name: 'b "c"' }];
    const { id, events } = await run('w', { inputs: { files } });
    const output = [`0: a of ${JSON.stringify(files)}`, `1: b "c" of ${JSON.stringify(files)}`];
    expect(await detail(id)).toMatchObject({
      state: 'completed',
      result: `${JSON.stringify(output)} ${output[1]}`,
      step_records: [
        { id: 'each', state: 'completed', output },
        { id: 'each[0]', state: 'completed', attempts: 1 },
        { id: 'each[1]', state: 'completed', attempts: 1 },
        { id: 'all' },
      ],
    });
    expect(summarizeEvents(events).filter((one) => /^step_(?:start|end)/.test(one))).toEqual([
      'step_start each',
      'step_start each[0]',
      'step_end each[0] completed',
      'step_start each[1]',
      'step_end each[1] completed',
      'step_end each completed',
      'step_start all',
      'step_end all completed',
    ]);
  });

  it('repeats nothing for an empty list, an absent input and a skipped step, and fails without a list', async () => {
    const { outside, run, detail } = await world();
    const each = (from: string, more = '') => step('each', 'say x', `foreach = "${from}"\n${more}`);
    outside.define('w', `${list('files')}${agents}${each('inputs.files')}`);
    for (const inputs of [{}, { files: [] }])
      expect(await detail((await run('w', { inputs })).id)).toMatchObject({ state: 'completed', result: [] });
    const skipped = step('no', 'say x', 'when = "false"\n');
    const also = step('yes', 'say y');
    outside.define('s', `${agents}${skipped}${also}${each('steps.no.output', 'needs = ["no", "yes"]')}`);
    expect(await detail((await run('s')).id)).toMatchObject({ result: [] });
    outside.define('t', `${agents}${also}${each('steps.yes.output', 'needs = ["yes"]')}`);
    expect((await run('t')).events.at(-1)).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining(
        'foreach needs a list in steps.yes.output, but it is of the type string',
      ),
    });
    outside.define('m', `${list('files')}${agents}${each('inputs.files')}`);
    const many = { files: Array.from({ length: 1001 }, () => 1) };
    expect((await run('m', { inputs: many })).events.at(-1)).toMatchObject({
      error: expect.stringContaining('1001 items'),
    });
  });

  it('retries the items that fail, and fails with the first that fails for good', async () => {
    const { outside, run, detail, turns } = await world();
    const each = step(
      'each',
      'fail 1 times {{index}}\nsay {{item}}',
      'foreach = "inputs.xs"\nretry = { attempts = 2 }',
    );
    outside.define('w', `${list('xs')}${agents}${each}`.replace('fail 1 times {{index}}', 'fail 1 times'));
    const { id } = await run('w', { inputs: { xs: ['p', 'q'] } });
    expect(await detail(id)).toMatchObject({ result: ['p', 'q'] });
    expect(turns.requests).toHaveLength(4);
    outside.define('f', `${list('xs')}${agents}${step('each', 'fail {{item}}', 'foreach = "inputs.xs"')}`);
    const failed = await run('f', { inputs: { xs: ['p', 'q'] } });
    expect(failed.events.at(-1)).toMatchObject({
      outcome: 'failed',
      error: expect.stringMatching(/each\[0\].*p/),
    });
    expect((await detail(failed.id)).step_records).toMatchObject([
      { id: 'each', state: 'failed' },
      { id: 'each[0]', state: 'failed' },
    ]);
  });

  it('runs steps side by side where the workflow allows it, and joins them', async () => {
    const { outside, begin, becomes, turns } = await world();
    const steps = [
      step('a', 'hold a'),
      step('b', 'hold b'),
      step('c', 'hold c'),
      step('d', 'say {{steps.a.output}} {{steps.b.output}}', 'needs = ["a", "b"]'),
    ];
    outside.define('w', `${agents}${steps.join('')}`, parallel(2));
    const id = await begin('w');
    const prompts = () => turns.requests.map(({ prompt }) => prompt);
    await expect.poll(prompts).toEqual(['hold a', 'hold b']);
    outside.holds.release('b');
    await expect.poll(prompts).toEqual(['hold a', 'hold b', 'hold c']);
    outside.holds.release('a');
    // The join goes on while another branch is still at work.
    await expect.poll(prompts).toContainEqual(expect.stringMatching(/^say /));
    outside.holds.release('c');
    await becomes(id, { state: 'completed' });
  });

  it('ends all branches before it fails, pauses, or is cancelled', async () => {
    const { outside, begin, becomes, json, turns, detail } = await world();
    const steps = [step('a', 'hold a'), step('b', 'hold b\nfail b'), step('c', 'say c', 'needs = ["a"]')];
    outside.define('w', `${agents}${steps.join('')}`, parallel(3));
    const prompts = () => turns.requests.map(({ prompt }) => prompt);
    const id = await begin('w');
    await expect.poll(prompts).toHaveLength(2);
    outside.holds.release('b');
    await expect
      .poll(async () => (await detail(id)).step_records?.find((one) => one.id === 'b')?.state)
      .toBe('failed');
    expect((await detail(id)).state).toBe('running');
    outside.holds.release('a');
    await becomes(id, { state: 'failed' });
    expect(prompts()).not.toContain('say c');

    const two = [step('a', 'hold a2'), step('b', 'hold b2'), step('c', 'say c', 'needs = ["a"]')];
    outside.define('p', `${agents}${two.join('')}`, parallel(3));
    const paused = await begin('p');
    await expect.poll(() => prompts().length).toBe(4);
    await json('POST', `runs/${paused}/pause`);
    outside.holds.release('a2');
    await expect
      .poll(async () => (await detail(paused)).step_records?.find((one) => one.id === 'a')?.state)
      .toBe('completed');
    expect((await detail(paused)).state).toBe('running');
    outside.holds.release('b2');
    await becomes(paused, { state: 'paused' });
    expect(prompts()).not.toContain('say c');
    await json('POST', `sessions/${paused}/cancel`);
    await becomes(paused, { state: 'cancelled' });
  });

  it('begins no more items once it is to pause, and says once that a step began', async () => {
    const { outside, start, begin, becomes, json, turns, detail, kill } = await world();
    const each = step('each', 'hold {{item}}', 'foreach = "inputs.xs"');
    outside.define('w', `${list('xs')}${agents}${each}`, parallel(2));
    const id = await begin('w', { inputs: { xs: ['a', 'b', 'c', 'd', 'e'] } });
    await expect.poll(() => turns.requests.length).toBe(2);
    await json('POST', `runs/${id}/pause`);
    for (const name of ['a', 'b']) outside.holds.release(name);
    await becomes(id, { state: 'paused' });
    expect(turns.requests).toHaveLength(2);
    expect((await detail(id)).step_records).toHaveLength(3);
    await kill();
    const next = await start();
    for (const name of ['c', 'd', 'e']) outside.holds.release(name);
    await next.json('POST', `runs/${id}/resume`);
    await next.becomes(id, { state: 'completed', result: ['a', 'b', 'c', 'd', 'e'] });
    const starts = (await next.events(id)).filter(({ type }) => type === 'step_start');
    expect(starts.filter((one) => 'step' in one && one.step === 'each')).toHaveLength(1);
  });

  it('lets several branches wait for a person at once, and another run run meanwhile', async () => {
    const { outside, begin, becomes, json, pending, detail } = await world();
    const gated = (id: string) => `[[steps]]\nid = "${id}"\ngate = { kind = "approval" }\n`;
    outside.define('w', `${agents}${gated('a')}${gated('b')}${step('c', 'stage')}`, parallel(3));
    const id = await begin('w');
    await expect
      .poll(async () => (await pending()).map(({ tool }) => tool).sort())
      .toEqual(['approval_gate', 'approval_gate', 'count']);
    outside.define('other', agents + step('a', 'say x'));
    // The run frees the slot once the last of its branches waits, soon after that one's change is pending.
    const other = await vi.waitFor(() => begin('other'), { timeout: 10_000 });
    await becomes(other, { state: 'completed' });
    const [first, ...rest] = await pending();
    await json('POST', `pending/${first?.id}/approve`);
    await expect.poll(async () => (await pending()).length).toBe(2);
    expect(await detail(id)).toMatchObject({ state: 'running', waiting_on: 'approval' });
    for (const one of rest) await json('POST', `pending/${one.id}/approve`);
    await becomes(id, { state: 'completed' });
    expect((await detail(id)).waiting_on).toBeUndefined();
  });

  const inner = `[inputs.topic]
type = "string"
required = true
[inputs.tone]
type = "string"
default = "calm"
${agents}${step('draft', 'say {{workflow}} {{inputs.topic}} {{inputs.tone}}')}${step('final', 'say <{{steps.draft.output}}>', 'needs = ["draft"]')}`;
  const sub = (id: string, more = '') =>
    `[[steps]]\nid = "${id}"\nworkflow = "inner"\ninputs = { topic = "{{inputs.topic}}" }\n${more}\n`;
  const topic = '[inputs.topic]\ntype = "string"\ndefault = "tea"\n';

  it('runs a workflow as a step, with inputs of its own', async () => {
    const { outside, run, detail } = await world();
    outside.define('inner', inner);
    outside.define(
      'w',
      `${topic}${agents}${sub('s')}${step('after', 'say {{steps.s.output}}!', 'needs = ["s"]')}`,
    );
    const { id } = await run('w');
    expect(await detail(id)).toMatchObject({
      state: 'completed',
      result: '<inner tea calm>!',
      step_records: [{ id: 's' }, { id: 's.draft' }, { id: 's.final' }, { id: 'after' }],
    });
    // The run keeps the text of the workflow that it began with; a new one takes the new text.
    outside.define('inner', inner.replace('say <', 'say ['));
    expect(await detail((await run('w')).id)).toMatchObject({ result: '[inner tea calm>!' });
  });

  it('repeats a workflow, side by side', async () => {
    const { outside, run, detail } = await world();
    outside.define('inner', inner);
    const each =
      '[[steps]]\nid = "s"\nworkflow = "inner"\nforeach = "inputs.xs"\ninputs = { topic = "{{item.t}}", tone = "{{index}}" }\n';
    outside.define('w', `${list('xs')}${each}`, parallel(4));
    const { id } = await run('w', { inputs: { xs: [{ t: 'a' }, { t: 'b' }] } });
    // A text that is one reference alone becomes its value: the index is no text.
    expect(await detail(id)).toMatchObject({ state: 'failed' });
    outside.define('w', `${list('xs')}${each.replace('"{{index}}"', '"n{{index}}"')}`, parallel(4));
    const second = await run('w', { inputs: { xs: [{ t: 'a' }, { t: 'b' }] } });
    expect(await detail(second.id)).toMatchObject({
      state: 'completed',
      result: ['<inner a n0>', '<inner b n1>'],
    });
  });

  it('suspends at a gate within a workflow, and goes on there in a new segment, also of another process', async () => {
    const { outside, start, run, becomes, json, stop } = await world();
    const gate =
      '[steps.gate]\nkind = "input"\nmessage = "{{inputs.topic}}?"\nschema = { type = "object", required = ["n"] }\n';
    outside.define('inner', `${inner.replace('say <{{', 'say <{{gate.n}} {{')}${gate}`);
    outside.define('w', `${topic}${agents}${sub('s')}`);
    const { id, events } = await run('w');
    expect(events.at(-1)).toMatchObject({ outcome: 'suspended', waiting_on: 'input' });
    expect(await becomes(id, { state: 'suspended' })).toMatchObject({
      gate: { step: 's.final', message: 'tea?' },
    });
    expect((await json('POST', `runs/${id}/resume`, { inputs: {} })).status).toBe(400);
    await stop();
    const next = await start();
    expect((await next.json('POST', `runs/${id}/resume`, { inputs: { n: 7 } })).status).toBe(200);
    expect(await next.becomes(id, { state: 'completed' })).toMatchObject({ result: '<7 inner tea calm>' });
  });

  it('opens value and event gates within a workflow by its own inputs', async () => {
    const { outside, run, becomes, json } = await world();
    const gate = 'gate = { kind = "event", name = "user.go", where = "data.topic == inputs.topic" }';
    outside.define('inner', inner.replace('id = "final"', `id = "final"\n${gate}`));
    outside.define('w', `${topic}${agents}${sub('s').replace('{{inputs.topic}}', 'own')}`);
    const { id } = await run('w');
    await json('POST', 'events', { name: 'user.go', data: { topic: 'tea' } });
    await json('POST', 'events', { name: 'user.go', data: { topic: 'own' } });
    await becomes(id, { state: 'completed' });
  });

  it('goes on after a kill with the parts that have not ended', async () => {
    const { outside, start, begin, kill, turns } = await world();
    outside.define(
      'inner',
      `[inputs.topic]\ntype = "string"\n${agents}${step('x', 'hold {{inputs.topic}}')}`,
    );
    const each =
      '[[steps]]\nid = "s"\nworkflow = "inner"\nforeach = "inputs.xs"\ninputs = { topic = "{{item}}" }\n';
    outside.define('w', `${list('xs')}${each}`, parallel(2));
    const id = await begin('w', { inputs: { xs: ['p', 'q', 'r'] } });
    await expect.poll(() => turns.requests.length).toBe(2);
    outside.holds.release('p');
    await expect.poll(() => turns.requests.length).toBe(3);
    await kill();
    const next = await start();
    for (const name of ['q', 'r']) outside.holds.release(name);
    const { result } = await next.becomes(id, { state: 'completed' });
    expect(result).toHaveLength(3);
    expect(next.turns.requests.map(({ prompt }) => prompt).sort()).toEqual(['hold q', 'hold r']);
  });

  it('asks about each branch that may have had effects before it runs again', async () => {
    const { outside, start, begin, kill } = await world();
    outside.define('w', `${agents}${step('a', 'effect\nhold a')}${step('b', 'effect\nhold b')}`, parallel(2));
    const id = await begin('w');
    // Both have stored that they may have had effects.
    await expect.poll(() => [...outside.holds.waiting].sort()).toEqual(['a', 'b']);
    await kill();
    const next = await start();
    for (const name of ['a', 'b']) outside.holds.release(name);
    for (const name of ['a', 'b']) {
      await next.becomes(id, { state: 'suspended', suspend_kind: 'crash' });
      expect(next.turns.requests).toEqual([]);
      const question = await next.asked('rerun_step');
      expect(await next.json('GET', `pending/${question}`)).toMatchObject({ body: { step: name } });
      await next.json('POST', `pending/${question}/approve`);
    }
    await next.becomes(id, { state: 'completed' });
    expect(next.turns.requests).toHaveLength(2);
  });

  it('refuses a workflow that runs itself, or one that is not enabled', async () => {
    const { outside, json, code } = await world();
    const runs = (name: string) => `[[steps]]\nid = "a"\nworkflow = "${name}"\n`;
    outside.define('one', runs('two'));
    outside.define('two', runs('one'));
    outside.define('three', runs('nobody'));
    expect(await code('POST', 'workflows/one/runs')).toEqual([409, 'invalid_workflow']);
    const { body } = await json('POST', 'workflows/three/runs');
    expect(JSON.stringify(body)).toContain("'three' runs 'nobody', which does not exist or is not enabled");
  });

  it('uses the model of a step, and another one in place of `resident`', async () => {
    const { outside, run, turns } = await world();
    const steps = [step('a', 'say x'), step('b', 'say y', 'model = "own"')];
    outside.define('w', `${agents}${steps.join('')}`);
    await run('w', { model: 'big' });
    await run('w');
    expect(turns.requests.map(({ agent }) => agent.model)).toEqual(['big', 'own', 'resident', 'own']);
  });
});
