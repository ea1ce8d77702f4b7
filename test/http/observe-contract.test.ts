import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Act } from '../../src/agent/shapes/act.ts';
import type { PendingChange, PendingChangeDetail } from '../../src/agent/shapes/pending-change.ts';
import type { WorkReceipt } from '../../src/agent/shapes/receipt.ts';
import type { RunDetail } from '../../src/agent/shapes/run.ts';
import type { Session } from '../../src/agent/shapes/session.ts';
import type { TaskDetail } from '../../src/agent/shapes/task.ts';
import { refusal } from '../support/contract-host.ts';
import { administer, describeDatabases } from '../support/databases.ts';
import {
  answered,
  driveCompletions,
  driveExternal,
  driveGateway,
  driveLab,
  driveRuns,
  driveTasks,
  startWholeHost,
} from '../support/driven-host.ts';
import { type Door, expectFailClosed, expectWellMannered } from '../support/fail-closed.ts';
import { letRead } from '../support/watched-host.ts';

// Section 4.6 of the interface, on a host of its own process that has done a little of everything: each surface is held
// against what the planes themselves answer.

const surfaces =
  'sessions tasks runs steps receipts completions spans pending acts parity bench gateway_requests transcript'.split(
    ' ',
  );
const doors: Door[] = [
  ['GET', '/observe/v1/surfaces'],
  ['GET', '/observe/v1/surfaces/tasks/schema'],
  ['POST', '/observe/v1/query', { surface: 'tasks' }],
  ['POST', '/observe/v1/questions/failed_tasks', {}],
];

describeDatabases('the observe plane of a host', (databaseUrl, kind) => {
  let at: Awaited<ReturnType<typeof startWholeHost>>;
  let url = '';
  let driven: {
    tasks: Awaited<ReturnType<typeof driveTasks>>;
    runs: Awaited<ReturnType<typeof driveRuns>>;
    external: Awaited<ReturnType<typeof driveExternal>>;
    completions: Awaited<ReturnType<typeof driveCompletions>>;
    gateway: Awaited<ReturnType<typeof driveGateway>>;
  };
  beforeAll(async () => {
    url = await databaseUrl();
    at = await startWholeHost({ database: url });
    for (const rack of ['agent', 'completions', 'workflows', 'gateway', 'external']) {
      await at.putRack(rack, { armed: true, policy: { content: 'full' } });
      await letRead(at.dataDir, rack);
    }
    const external = await driveExternal(at);
    driven = {
      external,
      tasks: await driveTasks(at),
      runs: await driveRuns(at),
      completions: await driveCompletions(at),
      gateway: await driveGateway(at),
    };
    await driveLab(at);
    await at.wait('the session is lost', async () => {
      const { json } = await at.get<WorkReceipt>(`/agent/v1/sessions/${external.lost}/receipt`);
      return json.id === external.lost;
    });
    // What is fed comes a second later at most.
    await at.wait('all is fed', async () => (await at.rows({ surface: 'bench' })).length > 0);
  });
  afterAll(() => at?.end());

  it('tells of itself: its surfaces with schemas, and the questions with their parameters', async () => {
    const { status, json } = await at.send('GET', '/observe/v1/surfaces');
    expect(status).toBe(200);
    const listed = json['surfaces'] as { name: string; columns: number; time: string }[];
    expect(listed.map(({ name }) => name).toSorted()).toEqual(surfaces.toSorted());
    for (const { name, columns, time } of listed) {
      const schema = await at.send('GET', `/observe/v1/surfaces/${name}/schema`);
      expect(schema.json).toMatchObject({ contract: 1, surface: name, time });
      expect(schema.json['columns']).toHaveLength(columns);
    }
    expect((json['questions'] as unknown[]).length).toBeGreaterThanOrEqual(10);
    const { json: health } = await at.get('/health');
    const { json: info } = await at.get('/host/v1/info');
    expect(health).toMatchObject({ planes: expect.arrayContaining(['observe', 'recorder']) });
    expect(info).toMatchObject({ capabilities: expect.arrayContaining(['observe', 'recorder']) });
    const document = (await (await fetch(`${at.url}/openapi.json`)).json()) as {
      paths: Record<string, Record<string, { security?: unknown }>>;
    };
    const documented = Object.entries(document.paths)
      .filter(([path]) => path.startsWith('/observe'))
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { security }]) => [method, path, security]),
      );
    expect(documented).toEqual([
      ['get', '/observe/v1/surfaces', [{ bearer: [] }]],
      ['get', '/observe/v1/surfaces/{surface}/schema', [{ bearer: [] }]],
      ['post', '/observe/v1/query', [{ bearer: [] }]],
      ['post', '/observe/v1/questions/{name}', [{ bearer: [] }]],
    ]);
  });

  it('opens for the bearer alone, on loopback too, and says what does not apply or is not there', async () => {
    await expectFailClosed(at, doors);
    await expectWellMannered(at, doors, '/observe');
  });

  it('refuses what is no query, with all that is wrong with it, and what is unknown', async () => {
    const wrong = await at.query({ surface: 'tasks', select: ['titel'], limit: 0, more: 1 });
    expect(refusal(wrong)).toEqual([400, 'invalid_query']);
    expect((await at.send('GET', '/observe/v1/surfaces/task/schema')).status).toBe(404);
    expect((await at.send('POST', '/observe/v1/questions/failed_task', { body: {} })).status).toBe(404);
    expect((await at.query({ surface: 'task' })).status).toBe(400);
    const text = await at.call('POST', '/observe/v1/query', { body: '{}', headers: at.bearer });
    expect(refusal(text)).toEqual([415, 'unsupported_media_type']);
    const large = await at.query({ surface: 'tasks', cursor: 'x'.repeat(300_000) });
    expect(large.status).toBe(413);
    const other = await at.query({ surface: 'tasks', limit: 1 });
    const { next } = other.json;
    expect((await at.query({ surface: 'tasks', limit: 1, cursor: next })).status).toBe(200);
    expect((await at.query({ surface: 'runs', limit: 1, cursor: next })).status).toBe(400);
  });

  it('answers every question of what happened here', async () => {
    const { json } = await at.send('GET', '/observe/v1/surfaces');
    for (const { name } of json['questions'] as { name: string }[]) {
      const body = name === 'said_about' ? { parameters: { subject: driven.tasks.look.id } } : {};
      const answer = await at.send('POST', `/observe/v1/questions/${name}`, { body });
      expect([name, answer.status, answer.json['warnings']]).toEqual([name, 200, []]);
      const { rows } = answer.json as { rows: unknown[] };
      expect([name, rows.length > 0]).toEqual([name, true]);
    }
  });

  it('tasks: as GET /agent/v1/tasks/{id} has them', async () => {
    for (const { id } of Object.values(driven.tasks)) {
      const { json: detail } = await at.get<TaskDetail & Session>(`/agent/v1/tasks/${id}`);
      const row = await at.one('tasks', id);
      expect(row).toMatchObject({
        id,
        state: detail.state,
        started_at: detail.started_at,
        ended_at: detail.ended_at,
        title: detail.title,
        last_event: detail.last_event,
        engine: detail.route?.engine,
        model: detail.route?.model,
        ...tokensOf(detail),
      });
    }
    expect(await at.one('tasks', driven.tasks.home.id)).toMatchObject({
      engine: 'resident',
      completion_tokens: 4,
      completion_tokens_claimed: null,
    });
  });

  it('runs and their steps: as GET /agent/v1/runs/{id} has them', async () => {
    for (const id of Object.values(driven.runs)) {
      const { json: detail } = await at.get<RunDetail>(`/agent/v1/runs/${id}`);
      expect(await at.one('runs', id)).toMatchObject({
        workflow: detail.workflow,
        source_digest: detail.digest,
        state: detail.state,
        waiting_on: detail.waiting_on ?? null,
        waiting_step: detail.gate?.step ?? null,
        started_at: detail.started_at,
        ended_at: detail.ended_at ?? null,
        last_event: detail.last_event,
        ...tokensOf(detail),
      });
      const steps = await at.rows({
        surface: 'steps',
        where: [{ column: 'run_id', op: 'eq', value: id }],
        order_by: [{ column: 'position' }],
      });
      expect(
        steps.map(({ step, state, attempts, started_at: from, ended_at: to, error }) => [
          step,
          state,
          attempts,
          from,
          to,
          error,
        ]),
      ).toEqual(
        detail.step_records.map(({ id: step, state, attempts, started_at: from, ended_at: to, error }) => [
          step,
          state,
          attempts,
          from,
          to ?? null,
          error ?? null,
        ]),
      );
    }
  });

  it('sessions: all that the feed of sessions has, and no figure twice', async () => {
    const { json } = await at.get<{ sessions: Session[] }>('/agent/v1/sessions?limit=1000');
    const feed = json.sessions.filter((session) => session.kind !== 'host');
    const rows = await at.rows({ surface: 'sessions' });
    const ids = rows.map(({ id }) => String(id)).toSorted();
    expect(ids.filter((id) => !id.startsWith('x'))).toEqual(
      feed
        .map(({ id }) => id)
        .filter((id) => !id.startsWith('x'))
        .toSorted(),
    );
    expect(ids.filter((id) => id.startsWith('x'))).toEqual(
      [driven.external.ended, driven.external.lost].toSorted(),
    );
    for (const session of feed)
      expect(rows.find(({ id }) => id === session.id)).toMatchObject({
        kind: session.kind,
        state: session.state,
        started_at: session.started_at,
        ended_at: session.ended_at ?? null,
      });
    expect(rows.find(({ id }) => id === driven.external.lost)).toMatchObject({
      state: 'failed',
      close_reason: 'heartbeat_lost',
      last_event: 'failed: heartbeat_lost',
      harness: 'cargo',
    });
    expect(rows.find(({ id }) => id === driven.external.ended)).toMatchObject({
      prompt_tokens: null,
      prompt_tokens_claimed: 50,
      completion_tokens_claimed: 5,
      last_event: 'failed',
      last_event_claimed: 'linking',
    });
  });

  it('receipts: as GET /agent/v1/sessions/{id}/receipt gives them', async () => {
    const rows = await at.rows({ surface: 'receipts', order_by: [{ column: 'seq' }] });
    expect(rows.map(({ seq }) => seq)).toEqual(rows.map((_, index) => index + 1));
    expect(rows).toHaveLength(Object.keys(driven.tasks).length + 2 + 2);
    for (const row of rows) {
      const { json } = await at.get<WorkReceipt>(`/agent/v1/sessions/${String(row['id'])}/receipt`);
      expect(row).toMatchObject({
        kind: json.kind,
        outcome: json.outcome,
        close_reason: json.close_reason ?? null,
        started_at: json.started_at,
        ended_at: json.ended_at,
        exit_code: json.exit_code ?? null,
        harness: json.harness ?? null,
      });
    }
  });

  it('pending: as GET /agent/v1/pending[/{id}] has them', async () => {
    const { json: waiting } = await at.get<PendingChange[]>('/agent/v1/pending');
    const staged = await at.rows({
      surface: 'pending',
      where: [{ column: 'state', op: 'eq', value: 'staged' }],
    });
    expect(staged.map(({ id }) => id)).toEqual(waiting.map(({ id }) => id));
    expect(staged).toEqual([
      expect.objectContaining({ id: driven.tasks.left.change, age_ms: expect.any(Number) }),
    ]);
    for (const [{ change }, state] of [
      [driven.tasks.kept, 'applied'],
      [driven.tasks.dropped, 'discarded'],
    ] as const) {
      const { json } = await at.get<PendingChangeDetail>(`/agent/v1/pending/${change}`);
      const [row] = await at.rows({
        surface: 'pending',
        select: 'state kind tool intent summary path risk created_at decided_at decided_by'.split(' '),
        where: [{ column: 'id', op: 'eq', value: change }],
      });
      expect(row).toEqual({
        state,
        kind: json.kind,
        tool: json.tool,
        intent: json.intent,
        summary: json.summary,
        path: json.path,
        risk: json.risk,
        created_at: json.created_at,
        decided_at: json.decided_at,
        decided_by: json.decided_by,
      });
    }
  });

  it('acts: the journal, line by line', async () => {
    const { json } = await at.get<{ acts: Act[] }>('/agent/v1/acts?limit=1000');
    const rows = await at.rows({
      surface: 'acts',
      select: 'seq at verb target by outcome reason note details'.split(' '),
      order_by: [{ column: 'seq' }],
    });
    const line = ({ seq, at: time, verb, target, by, outcome, reason, note, details }: Partial<Act>) => [
      seq,
      time,
      verb,
      target,
      by,
      outcome,
      reason ?? null,
      note ?? null,
      details ?? null,
    ];
    const journal = json.acts.toSorted((a, b) => a.seq - b.seq);
    expect(rows.map((row) => line(row as Partial<Act>))).toEqual(journal.map(line));
    for (const outcome of ['applied', 'refused'])
      expect(rows).toContainEqual(expect.objectContaining({ outcome }));
  });

  it('completions: one for each request on each wire, and for each answer of an agent', async () => {
    const rows = await at.rows({ surface: 'completions' });
    const agents = rows.filter(({ wire }) => wire === 'agent');
    for (const { wire, stream, id, status } of driven.completions) {
      const ok = status === 200;
      expect(rows.filter((row) => row['id'] === id)).toEqual([
        expect.objectContaining({
          wire,
          status,
          by: 'local',
          engine: 'resident',
          outcome: ok ? 'ok' : 'refused',
          completion_tokens: ok && wire !== 'embeddings' ? answered.length : null,
          model: ok ? 'scripted' : null,
          total_ms: expect.any(Number),
          ...(ok ? { stream } : {}),
        }),
      ]);
    }
    const tasks = Object.values(driven.tasks);
    // Two turns of those that call a tool, and those of the two runs that asked a model.
    expect(agents.filter(({ subject }) => tasks.some(({ id }) => id === subject))).toHaveLength(10);
    expect(agents.find(({ subject }) => subject === driven.tasks.home.id)).toMatchObject({
      agent: 'homely',
      model: 'scripted',
      completion_tokens: 4,
    });
    expect(agents.find(({ subject }) => subject === driven.tasks.broken.id)).toMatchObject({
      outcome: 'failed',
      prompt_tokens: null,
    });
    for (const id of [driven.runs.asking, driven.runs.failing])
      expect(agents.some(({ subject }) => subject === id)).toBe(true);
    // Those that the gateway of the host asked the resident model for, too; nothing else.
    expect(rows).toHaveLength(driven.completions.length + agents.length + 2);
  });

  it('spans: each tool call of an agent, and each attempt at a provider of the gateway', async () => {
    const rows = await at.rows({ surface: 'spans' });
    const calls = rows.filter((row) => row['kind'] === 'tool');
    expect(calls.filter(({ subject }) => subject === driven.tasks.look.id)).toEqual([
      expect.objectContaining({ name: 'observe_health', agent: 'writer', outcome: 'ok', request_id: null }),
    ]);
    for (const id of ['kept', 'dropped', 'left'] as const)
      expect(calls.filter(({ subject }) => subject === driven.tasks[id].id)).toEqual([
        expect.objectContaining({ name: 'fs_write' }),
      ]);
    const attempts = rows.filter((row) => row['kind'] === 'attempt');
    // There were five requests; one was refused before a provider was asked.
    expect(attempts).toHaveLength(4);
    for (const { headers } of driven.gateway.answers.slice(0, 4))
      expect(attempts).toContainEqual(
        expect.objectContaining({
          request_id: headers.get('x-request-id'),
          attempt: 1,
          outcome: 'ok',
          subject: null,
        }),
      );
    for (const { total_ms: total } of rows) expect(total).toBeGreaterThanOrEqual(0);
  });

  it('gateway_requests: the values of their receipts', async () => {
    const rows = await at.rows({ surface: 'gateway_requests' });
    expect(rows).toHaveLength(driven.gateway.answers.length);
    for (const { model, stream, status, headers } of driven.gateway.answers) {
      const cost = headers.get('x-svc-cost-nanousd');
      expect(rows.find(({ id }) => id === headers.get('x-svc-request-id'))).toMatchObject({
        requested_model: model,
        effective_model: headers.get('x-svc-effective-model'),
        stream,
        status,
        account_id: driven.gateway.accountId,
        pricing_identity: headers.get('x-svc-pricing-identity'),
        ended: status === 200 ? 'settled' : 'refused',
        ...(cost === null ? {} : { cost: Number(cost) }),
      });
    }
    const [sum] = await at.rows({
      surface: 'gateway_requests',
      aggregate: [{ fn: 'sum', column: 'charged', as: 'paid' }],
    });
    expect(sum).toEqual({ paid: 210_000 });
  });

  it('parity and bench: what the lab judged and measured', async () => {
    const verdicts = await at.rows({ surface: 'parity', order_by: [{ column: 'at' }] });
    expect(verdicts.map(({ source, kernel, ok, model }) => [source, kernel, ok, model])).toEqual([
      ['gate', 'fast', true, 'scripted'],
      ['gate', 'slow', false, 'scripted'],
      ['run', 'fast', false, 'scripted'],
    ]);
    expect(await at.rows({ surface: 'bench' })).toEqual([
      expect.objectContaining({ verdict: 'faster', rounds: 8, bound_decode_tps: 12, model: 'scripted' }),
    ]);
  });

  it('transcript: conversations of every plane, in racks that may be read', async () => {
    for (const [rack, text] of [
      ['completions', answered.join('')],
      ['agent', 'All is well.'],
      ['workflows', 'To Ann'],
      ['gateway', 'From afar.'],
    ] as const) {
      const contents = (await at.transcript(rack)).map(({ content }) => content);
      expect([rack, contents.includes(text)]).toEqual([rack, true]);
    }
  });

  it('changes nothing, whatever is sent to it', async () => {
    const tables = async () => {
      const all = await (kind === 'sqlite' ? sqliteRows(url) : postgresRows(url));
      // Where the gateway says every few seconds that it is alive.
      delete all['gateway_replicas'];
      const folder = join(at.dataDir, 'recorder');
      for (const file of readdirSync(folder).filter((name) => name.endsWith('.db')))
        for (const [name, rows] of Object.entries(sqliteRows(`sqlite:${join(folder, file)}`)))
          if (!['review', 'sqlite_sequence'].includes(name)) all[`${file} ${name}`] = rows;
      return all;
    };
    const before = await tables();
    expect(Object.keys(before).length).toBeGreaterThan(20);
    const reviewed = (await at.review()).length;
    let read = 0;
    // The host itself says nothing in the rack of external sessions.
    const kept = ['agent', 'completions', 'workflows', 'gateway'];
    const bodies: unknown[] = [
      ...surfaces.map((surface) => ({ surface })),
      { surface: 'tasks', aggregate: [{ fn: 'count' }], group_by: [{ column: 'started_at', bucket: 'day' }] },
      { surface: 'tasks', where: [{ column: 'id', op: 'eq', value: "x'; delete from tasks; --" }] },
      { surface: 'tasks"; delete from tasks; --' },
      { surface: 'tasks', select: ['id"; drop table acts; --'] },
      { surface: 'tasks', aggregate: [{ fn: 'count', as: 'a; drop table acts' }] },
      { surface: 'tasks', order_by: [{ column: '1; update tasks set title = 0' }] },
      { surface: 'sqlite_master' },
      { surface: 'pg_sleep(10)' },
      { surface: 'completions', where: [{ column: 'started_at', op: 'gte', value: "-1d'; vacuum; --" }] },
      { surface: '__proto__' },
      '',
      '{',
      [],
      null,
      7,
      { surface: 'tasks', cursor: 'e30' },
    ];
    for (const body of bodies) {
      const answer = await at.query(body, { 'content-type': 'application/json' });
      expect([body, answer.status < 500]).toEqual([body, true]);
      if (answer.status === 200 && answer.json.surface === 'transcript') read += kept.length;
    }
    const parameters = [
      { subject: "'; delete from acts; --" },
      { since: '-1h' },
      { since: ';' },
      { by: 'day)' },
    ];
    const { json } = await at.send('GET', '/observe/v1/surfaces');
    const names = (json['questions'] as { name: string }[]).map(({ name }) => name);
    for (const name of [...names, "x' or 1=1", '%00', '..%2f..%2fhistory', 'failed_tasks; drop table acts'])
      for (const body of [{}, ...parameters.map((given) => ({ parameters: given }))]) {
        const answer = await at.send('POST', `/observe/v1/questions/${name}`, { body });
        expect([name, answer.status < 500]).toEqual([name, true]);
        if (answer.status === 200 && answer.json['surface'] === 'transcript') read += kept.length;
      }
    for (const name of [...surfaces, 'acts;', "acts'--"])
      await at.send('GET', `/observe/v1/surfaces/${name}/schema`);
    expect(await tables()).toEqual(before);
    // Each read of conversation content is recorded, rack by rack.
    const now = await at.review();
    expect(now.slice(reviewed).map(({ act }) => act)).toEqual(Array<string>(read).fill('read'));
  });
});

/** Measured tokens of what the resident model did, claimed ones of what a gateway's did. */
function tokensOf({ tokens, route }: Pick<Session, 'tokens' | 'route'>) {
  const { prompt = null, completion = null } = tokens ?? {};
  const isOwn = route?.engine !== 'gateway';
  return {
    prompt_tokens: isOwn ? prompt : null,
    completion_tokens: isOwn ? completion : null,
    prompt_tokens_claimed: isOwn ? null : prompt,
    completion_tokens_claimed: isOwn ? null : completion,
  };
}

const digest = (rows: unknown) =>
  createHash('sha256')
    .update(JSON.stringify(rows, (_, value: unknown) => (typeof value === 'bigint' ? String(value) : value)))
    .digest('hex');

/** All tables with all that is in them. */
function sqliteRows(url: string): Record<string, string> {
  const db = new DatabaseSync(url.slice('sqlite:'.length), { readOnly: true, timeout: 60_000 });
  try {
    const names = db.prepare("select name from sqlite_master where type = 'table'").all();
    return Object.fromEntries(
      names.map(({ name }) => {
        const all = db.prepare(`select * from "${String(name)}"`);
        all.setReadBigInts(true);
        return [String(name), digest(all.all())];
      }),
    );
  } finally {
    db.close();
  }
}

async function postgresRows(url: string): Promise<Record<string, string>> {
  const database = /^postgres:\/\/\/([^?]+)/.exec(url)?.[1] ?? '';
  const { rows } = await administer(
    "select table_name as name from information_schema.tables where table_schema = 'public'",
    database,
  );
  const tables: Record<string, string> = {};
  for (const { name } of rows as { name: string }[])
    tables[name] = digest(
      (await administer(`select to_jsonb(t)::text as row from "${name}" as t order by 1`, database)).rows,
    );
  return tables;
}
