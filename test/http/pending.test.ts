/** Pending changes over HTTP: listing, decisions, journal and refusals. */
import { existsSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { describeDatabases } from '../support/databases.ts';
import {
  context,
  execProposal,
  FakeTool,
  fileProposal,
  hashAt,
  pendingHosts,
} from '../support/pending-world.ts';
import { routeServers } from '../support/serve-routes.ts';

describeDatabases('pending changes over HTTP', (url) => {
  const { host, file } = pendingHosts();
  const serve = routeServers();

  async function world() {
    const tool = new FakeTool('fs_write');
    const run = new FakeTool('run_command');
    const { changes, routes } = await host(await url(), { tools: [tool, run] });
    const { send, url: address } = await serve(routes);
    const json = async (method: string, path: string, body?: unknown) => {
      const response = await send(method, `/agent/v1/${path}`, body);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    const acts = async (query = '') =>
      (await json('GET', `acts${query}`)).body['acts'] as Record<string, unknown>[];
    const stage = async (contents = 'new') => {
      const path = file();
      return { path, change: await changes.stage(tool, fileProposal(path, contents), context()) };
    };
    return { tool, run, changes, send, json, acts, stage, address };
  }
  const code = ({ body }: { body: Record<string, unknown> }) => (body['error'] as { code: string }).code;

  it('lists staged changes, oldest first, with everything a person needs to decide', async () => {
    const { json, stage, changes, run } = await world();
    const first = await stage();
    await changes.stage(run, execProposal(), context({ runId: 'r1', step: 'build' }));
    const { status, body } = await json('GET', 'pending');
    expect(status).toBe(200);
    expect(body).toEqual([
      {
        id: 'p1',
        kind: 'file_write',
        tool: 'fs_write',
        task_id: 't1',
        path: first.path,
        diff: '--- a\n+++ b\n@@ -0,0 +1 @@\n+new\n',
        base_hash: 'absent',
        agent: 'helper',
        intent: 'to have it',
        summary: `Write ${first.path}`,
        risk: 'low',
        created_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/) as string,
        expires_at: expect.any(String) as string,
      },
      expect.objectContaining({
        id: 'p2',
        kind: 'exec',
        task_id: 't1',
        run_id: 'r1',
        step: 'build',
        risk: 'high',
      }),
    ]);
    const { created_at, expires_at } = first.change;
    expect(Date.parse(expires_at) - Date.parse(created_at)).toBe(7 * 24 * 3600 * 1000);
  });

  it('applies an approved change once, and records who and when', async () => {
    const { json, stage, acts, tool } = await world();
    const { path } = await stage('the contents');
    for (const _ of [1, 2, 3])
      expect(await json('POST', 'pending/p1/approve')).toEqual({
        status: 200,
        body: { id: 'p1', applied: true },
      });
    expect(readFileSync(path, 'utf8')).toBe('the contents');
    expect(tool.applied).toBe(1);
    expect((await json('GET', 'pending')).body).toEqual([]);
    expect(await acts()).toEqual([
      {
        seq: 1,
        at: expect.any(String) as string,
        endpoint_id: 'host-a',
        verb: 'approve',
        target: 'p1',
        by: 'local',
        outcome: 'applied',
        details: { kind: 'file_write', tool: 'fs_write', agent: 'helper', path, phase: 'end', ok: true },
      },
    ]);
    expect((await json('GET', 'pending/p1')).body).toMatchObject({
      state: 'applied',
      decided_by: 'local',
      decided_at: expect.any(String) as string,
      output: { ok: true, output: 'wrote the contents', truncated: false },
    });
  });

  it('answers 409 when the base moved, leaves the change staged, and applies it when the base is back', async () => {
    const { json, stage, acts } = await world();
    const { path } = await stage('mine');
    writeFileSync(path, 'theirs');
    const moved = await json('POST', 'pending/p1/approve');
    expect([moved.status, code(moved)]).toEqual([409, 'base_moved']);
    expect(JSON.stringify(moved.body)).toContain(hashAt(path));
    expect(readFileSync(path, 'utf8')).toBe('theirs');
    expect((await json('GET', 'pending')).body).toHaveLength(1);
    expect((await json('GET', 'pending/p1')).body).not.toHaveProperty('decided_by');
    expect(await acts()).toMatchObject([{ verb: 'approve', outcome: 'refused', reason: 'base_moved' }]);
    unlinkSync(path);
    expect((await json('POST', 'pending/p1/approve')).status).toBe(200);
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it.each([
    ['no body', undefined, undefined],
    ['an empty object', {}, undefined],
    ['a note', { note: 'not now' }, 'not now'],
    ['an empty note', { note: '' }, ''],
    ['unknown members', { why: 1, note: 'later' }, 'later'],
    ['2000 characters of two UTF-16 units each', { note: '😀'.repeat(2000) }, '😀'.repeat(2000)],
  ])('discards with %s', async (_, body, note) => {
    const { json, stage, acts, tool } = await world();
    const { path } = await stage();
    expect(await json('POST', 'pending/p1/discard', body)).toEqual({
      status: 200,
      body: { id: 'p1', discarded: true },
    });
    expect([tool.applied, existsSync(path)]).toEqual([0, false]);
    const [act] = await acts();
    expect(act).toMatchObject({ verb: 'discard', target: 'p1', by: 'local', outcome: 'applied' });
    expect(act?.['note']).toBe(note);
    // The note is in the journal only.
    expect((await json('GET', 'pending/p1')).body).toMatchObject({ state: 'discarded' });
    if (note) expect(JSON.stringify((await json('GET', 'pending/p1')).body)).not.toContain(note);
    expect((await json('POST', 'pending/p1/discard')).status).toBe(200);
    expect(await acts()).toHaveLength(1);
  });

  it('keeps the note out of the signals that workflows see', async () => {
    const tool = new FakeTool('fs_write');
    const { store, changes } = await host(await url(), { tools: [tool] });
    await changes.stage(tool, fileProposal(file(), 'x'), context());
    await changes.discard('p1', 'operator', 'a secret thought');
    const rows = await store.read((db) => db.selectFrom('signals').selectAll().execute());
    expect(rows.map(({ name }) => name)).toEqual(['pending.staged', 'pending.discarded']);
    const staged = {
      id: 'p1',
      kind: 'file_write',
      tool: 'fs_write',
      agent: 'helper',
      summary: expect.stringMatching(/^Write \//) as string,
      risk: 'low',
      task_id: 't1',
    };
    expect(rows.map(({ data }) => JSON.parse(data) as object)).toEqual([
      staged,
      { ...staged, by: 'operator' },
    ]);
  });

  it.each([
    ['an array', []],
    ['a text', '"text"'],
    ['a number', '1'],
    ['null', 'null'],
    ['a note that is a number', { note: 1 }],
    ['a note that is null', { note: null }],
    ['a note that is an object', { note: {} }],
    ['2001 characters', { note: 'x'.repeat(2001) }],
    ['2001 characters of two units', { note: '😀'.repeat(2001) }],
    ['a very long note', { note: 'x'.repeat(1_000_000) }],
    ['no JSON', '{"note": "x'],
  ])('refuses to discard with %s, and changes nothing', async (_, body) => {
    const { json, stage, acts } = await world();
    await stage();
    const refused = await json('POST', 'pending/p1/discard', body);
    expect(refused.status).toBe(400);
    expect(JSON.stringify(refused.body).length).toBeLessThan(1000);
    expect((await json('GET', 'pending')).body).toHaveLength(1);
    expect(await acts()).toEqual([]);
    expect((await json('POST', 'pending/p1/approve')).status).toBe(200);
  });

  it('answers 404 for unknown changes', async () => {
    const { json } = await world();
    for (const id of ['p1', 'p0', 'x', 'p1%00', 'p'.repeat(5000), '%F0%9F%98%80', "p1'--"]) {
      for (const [method, verb] of [
        ['POST', '/approve'],
        ['POST', '/discard'],
        ['GET', ''],
      ] as const) {
        const answer = await json(method, `pending/${id}${verb}`);
        expect([id, answer.status]).toEqual([id, 404]);
        expect(code(answer)).toBe('not_found');
      }
    }
  });

  it('answers 409 for changes that are decided differently', async () => {
    const { json, stage, acts } = await world();
    await stage();
    await stage();
    await json('POST', 'pending/p1/discard');
    await json('POST', 'pending/p2/approve');
    const [late, undone] = [
      await json('POST', 'pending/p1/approve'),
      await json('POST', 'pending/p2/discard'),
    ];
    expect([late.status, code(late)]).toEqual([409, 'already_discarded']);
    expect([undone.status, code(undone)]).toEqual([409, 'already_applied']);
    expect(await acts()).toMatchObject([
      { verb: 'discard', target: 'p1', outcome: 'applied' },
      { verb: 'approve', target: 'p2', outcome: 'applied' },
      { verb: 'approve', target: 'p1', outcome: 'refused', reason: 'already_discarded' },
      { verb: 'discard', target: 'p2', outcome: 'refused', reason: 'already_applied' },
    ]);
  });

  it('answers 409 on a host that did not stage the change, which may still discard it', async () => {
    const at = await url();
    const tool = new FakeTool('fs_write');
    const { changes } = await host(at, { tools: [tool] });
    const { routes } = await host(at, { tools: [tool], endpointId: 'host-b' });
    const { send } = await serve(routes);
    const post = async (verb: string) => {
      const response = await send('POST', `/agent/v1/pending/p1/${verb}`);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    await changes.stage(tool, fileProposal(file(), 'x'), context());
    const elsewhere = await post('approve');
    expect([elsewhere.status, code(elsewhere)]).toEqual([409, 'staged_elsewhere']);
    expect(JSON.stringify(elsewhere.body)).toContain("staged on host 'host-a'");
    expect(await changes.list()).toHaveLength(1);
    expect(await post('discard')).toEqual({ status: 200, body: { id: 'p1', discarded: true } });
    const { acts } = (await (await send('GET', '/agent/v1/acts')).json()) as { acts: unknown[] };
    expect(acts).toMatchObject([
      { verb: 'approve', by: 'local', outcome: 'refused', reason: 'staged_elsewhere' },
      { verb: 'discard', by: 'local', outcome: 'applied' },
    ]);
    expect(tool.applied).toBe(0);
  });

  it('completes an application when the client disconnects', async () => {
    const { json, stage, tool, address } = await world();
    const { path } = await stage('whole');
    const going = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const aborted: boolean[] = [];
    tool.apply = async (payload, signal) => {
      begun.resolve();
      await going.promise;
      aborted.push(signal.aborted);
      return tool.write(payload as never);
    };
    const client = new AbortController();
    const left = fetch(`${address}/agent/v1/pending/p1/approve`, { method: 'POST', signal: client.signal });
    await begun.promise;
    client.abort();
    await expect(left).rejects.toThrow();
    going.resolve();
    expect(await json('POST', 'pending/p1/approve')).toMatchObject({ status: 200 });
    expect([readFileSync(path, 'utf8'), tool.applied, aborted]).toEqual(['whole', 1, [false]]);
  });

  it('cuts long diffs in the list, shows them completely in the detail, and applies the complete change', async () => {
    const { json, changes, tool } = await world();
    const line = `+${'é'.repeat(99)}\n`;
    const path = file();
    const diff = line.repeat(4000);
    for (let one = 0; one < 20; one++)
      await changes.stage(tool, { ...fileProposal(path, 'all'), diff: one === 19 ? line : diff }, context());
    const listed = (await json('GET', 'pending')).body as unknown as { id: string; diff: string }[];
    expect(listed).toHaveLength(20);
    const [first] = listed;
    expect(first?.diff.length).toBeLessThan(257 * 1024);
    expect(first?.diff.startsWith(line.repeat(2590))).toBe(true);
    expect(first?.diff).toMatch(
      /\n\\ The rest is not shown here \(404000 characters in all\).*\/pending\/p1 shows it/,
    );
    // All diffs together are bounded as well.
    expect(listed.reduce((sum, one) => sum + one.diff.length, 0)).toBeLessThan(4.1 * 1024 * 1024);
    expect(listed.at(-1)?.diff).toContain('/pending/p20 shows it');
    expect((await json('GET', 'pending/p1')).body['diff']).toBe(diff);
    expect((await json('POST', 'pending/p1/approve')).status).toBe(200);
  });

  it('reads the journal from a seq, or its newest acts', async () => {
    const { json, stage, acts } = await world();
    for (let one = 1; one <= 5; one++) {
      await stage();
      await json('POST', `pending/p${one}/discard`);
    }
    const targets = async (query: string) => (await acts(query)).map(({ target }) => target);
    expect(await targets('')).toEqual(['p1', 'p2', 'p3', 'p4', 'p5']);
    expect(await targets('?limit=2')).toEqual(['p4', 'p5']);
    expect(await targets('?after=1&limit=2')).toEqual(['p2', 'p3']);
    expect(await targets('?after=0')).toEqual(['p1', 'p2', 'p3', 'p4', 'p5']);
    expect(await targets('?after=5')).toEqual([]);
    const refused = await json('GET', 'acts?after=-1&limit=1001');
    expect(refused.status).toBe(400);
    expect(
      (refused.body['error'] as { violations: { path: string }[] }).violations.map(({ path }) => path),
    ).toEqual(['after', 'limit']);
    for (const bad of ['after=1.5', 'after=', 'after=1e3', 'limit=0', 'limit=x', 'after=99999999999999999'])
      expect((await json('GET', `acts?${bad}`)).status).toBe(400);
  });

  it('refuses approval by a page of another origin', async () => {
    const { send, stage, tool } = await world();
    await stage();
    const headers = { origin: 'https://evil.example' };
    expect((await send('POST', '/agent/v1/pending/p1/approve', undefined, headers)).status).toBe(403);
    expect((await send('POST', '/agent/v1/pending/p1/discard', undefined, headers)).status).toBe(403);
    expect(tool.applied).toBe(0);
  });
});
