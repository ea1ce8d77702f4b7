import { afterEach, describe, expect, it } from 'vitest';
import { surfaces } from '../../src/observe/surfaces/index.ts';
import { checkQuery } from '../../src/observe/query/check-query.ts';
import { buildQuestionQuery, questions, describeQuestions } from '../../src/observe/questions/index.ts';
import { describeDatabases } from '../support/databases.ts';
import { caught } from '../support/observe-answers.ts';
import { observing, wholeHost } from '../support/observe-host.ts';

const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

describe('named questions', () => {
  it('are at least twelve, each with its own name, and about every surface but receipts', () => {
    const names = questions.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThanOrEqual(12);
    expect(names).toEqual(
      expect.arrayContaining([
        'slowest_turns',
        'tokens_by_day_and_agent',
        'failed_runs',
        'gate_waits',
        'pending_by_age',
        'first_token_p95',
        'kernel_verdicts',
        'cost_by_gateway_key',
        'vanished_sessions',
        'measurement_coverage',
      ]),
    );
    const about = new Set(questions.map(({ name }) => buildQuestionQuery(name, parametersOf(name)).surface));
    expect(surfaces.map(({ name }) => name).filter((name) => !about.has(name))).toEqual(['receipts']);
  });

  it('are shown with their parameters as JSON Schema', () => {
    const shown = describeQuestions();
    expect(shown).toHaveLength(questions.length);
    for (const { name, description, parameters } of shown) {
      expect(description, name).toMatch(/^[A-Z].{20,}\.$/);
      expect(parameters, name).toMatchObject({ type: 'object', additionalProperties: false });
      for (const parameter of Object.values(parameters.properties ?? {}))
        expect(parameter, name).toMatchObject({ description: expect.stringMatching(/\.$/) as string });
    }
    const slowest = shown.find(({ name }) => name === 'slowest_turns');
    expect(slowest?.parameters.properties?.['since']).toMatchObject({ default: '-24h' });
  });

  it.each(questions.map(({ name }) => name))(
    '%s is a query that can be answered, with and without parameters',
    (name) => {
      const { query } = checkQuery(buildQuestionQuery(name, parametersOf(name)));
      expect(query.surface).toBeTruthy();
      const given = questions.find((one) => one.name === name)?.parameters.shape ?? {};
      const all = Object.fromEntries(
        Object.keys(given).map((key) => [
          key,
          key === 'since' ? '2026-01-01T00:00:00Z' : key === 'by' && name !== 'who_acted' ? 'month' : 'x',
        ]),
      );
      expect(() => checkQuery(buildQuestionQuery(name, { parameters: all, limit: 7 }))).not.toThrow();
      expect(buildQuestionQuery(name, { parameters: all, limit: 7, cursor: 'c' })).toMatchObject({
        limit: 7,
        cursor: 'c',
      });
    },
  );

  it('report all violations at once', () => {
    expect(caught(() => buildQuestionQuery('slowest_turn', {}))).toMatchObject({
      kind: 'not_found',
      code: 'unknown_question',
      message: expect.stringContaining("did you mean 'slowest_turns'?") as string,
    });
    const refusal = caught(() =>
      buildQuestionQuery('slowest_turns', {
        parameters: { since: 'yesterday', agnet: 'x', wire: '' },
        limit: 0,
        page: 2,
      }),
    );
    expect(refusal.kind).toBe('invalid');
    expect(refusal.violations.map(({ path }) => path).sort()).toEqual([
      'limit',
      'page',
      'parameters.agnet',
      'parameters.since',
      'parameters.wire',
    ]);
    expect(refusal.message).toContain("did you mean 'agent'?");
    expect(refusal.message).toContain('-15m, -24h or -7d');
    for (const body of [[], 'x', 7, { parameters: [] }, { parameters: 'x' }])
      expect(caught(() => buildQuestionQuery('slowest_turns', body)).kind).toBe('invalid');
    expect(buildQuestionQuery('slowest_turns', undefined).surface).toBe('completions');
  });
});

describeDatabases('named questions', (freshUrl) => {
  it('are answered of an empty database', async () => {
    const host = await observing(await freshUrl(), undo);
    for (const { name } of questions) {
      const answer = await host.observe.ask(name, parametersOf(name), 'operator');
      expect(answer.rows, name).toEqual([]);
      expect(answer.coverage.denominator?.rows ?? 0, name).toBe(0);
    }
  });

  it('are answered of a host that has seen everything', async () => {
    const host = await observing(await freshUrl(), undo);
    await wholeHost(host);
    const answers: Record<string, Record<string, unknown>[]> = {};
    for (const { name } of questions) {
      const { columns, rows } = await host.observe.ask(name, parametersOf(name), 'operator');
      answers[name] = rows.map((row) =>
        Object.fromEntries(columns.map((column, n) => [column.name, row[n]])),
      );
    }
    expect(
      Object.entries(answers)
        .filter(([, rows]) => rows.length === 0)
        .map(([name]) => name),
    ).toEqual(['said_about']);
    expect(answers['slowest_turns']?.map(({ total_ms }) => total_ms)).toEqual([900, 500, 100]);
    expect(answers['first_token_p95']).toEqual([
      {
        started_at: '2026-06-15T11:00:00.000Z',
        model: 'small',
        answers: 3,
        p50_ms: 50,
        p95_ms: 86,
        max_ms: 90,
      },
    ]);
    expect(answers['tokens_by_day_and_agent']).toEqual([
      expect.objectContaining({ agent: 'scout', answers: 1, prompt_tokens: 30, completion_tokens: 3 }),
      expect.objectContaining({ agent: null, answers: 3, prompt_tokens: 30, completion_tokens: 3 }),
    ]);
    expect(answers['errors_by_wire']).toEqual([
      {
        wire: 'chat',
        outcome: 'failed',
        status: 500,
        code: 'engine_failed',
        requests: 1,
        first_at: '2026-06-15T11:40:00.000Z',
        last_at: '2026-06-15T11:40:00.000Z',
      },
    ]);
    expect(answers['measurement_coverage']).toContainEqual(
      expect.objectContaining({ wire: 'chat', outcome: 'failed', answers: 1, with_first_token_ms: 0 }),
    );
    expect(answers['failed_runs']).toEqual([
      expect.objectContaining({ id: 'r1', workflow: 'nightly', failure: 'the tests do not pass' }),
    ]);
    expect(answers['tool_calls']).toEqual([
      expect.objectContaining({ name: 'fs_read', outcome: 'ok', calls: 1, p95_ms: 60_000 }),
    ]);
    expect(answers['failing_steps']).toEqual([
      expect.objectContaining({
        workflow: 'nightly',
        step: 'check',
        error: 'exit code 1',
        times: 1,
        attempts: 3,
      }),
    ]);
    expect(answers['failed_tasks']).toEqual([
      expect.objectContaining({ id: 't2', outcome: 'turn_cap', failure: 'it took too many turns' }),
    ]);
    expect(
      answers['gate_waits']?.map(({ id, waiting_step, waiting_ms }) => [id, waiting_step, waiting_ms]),
    ).toEqual([
      ['r3', null, 7_200_000],
      ['r2', 'ask', 3_600_000],
    ]);
    expect(answers['pending_by_age']?.map(({ id, age_ms }) => [id, age_ms])).toEqual([
      ['p1', 3_600_000],
      ['p2', 60_000],
    ]);
    expect(answers['decision_times']).toEqual([
      { kind: 'exec', risk: 'high', state: 'applied', changes: 1, p50_ms: 30_000, p95_ms: 30_000 },
    ]);
    expect(answers['who_acted']?.map(({ by, verb, outcome, acts }) => [by, verb, outcome, acts])).toEqual([
      ['peer:laptop', 'approve', 'refused', 1],
      ['operator', 'approve', 'applied', 2],
    ]);
    expect(answers['refused_acts']).toEqual([
      expect.objectContaining({ by: 'peer:laptop', target: 'p1', reason: 'not_yours' }),
    ]);
    expect(answers['vanished_sessions']).toEqual([expect.objectContaining({ id: 'x1', harness: 'editor' })]);
    expect(answers['kernel_verdicts']).toEqual([
      expect.objectContaining({ kernel: 'fast', ok: true, verdicts: 2, worst_nmse: 0.5 }),
      expect.objectContaining({ kernel: 'wrong', ok: false, failed_stage: 'cases', verdicts: 1 }),
    ]);
    expect(answers['kernel_benches']).toEqual([
      expect.objectContaining({ kernels: 'fast', verdict: 'faster' }),
    ]);
    expect(answers['cost_by_gateway_key']).toEqual([
      expect.objectContaining({ key_label: 'ci', account: 'team', requests: 2, cost: '9007199254740995' }),
      expect.objectContaining({ key_id: 'k2', requests: 1, cost: 5 }),
    ]);
    expect(answers['gateway_providers']?.map(({ requests, outcome }) => [outcome, requests])).toEqual([
      ['completed', 2],
      ['failed', 1],
    ]);
  });
});

const parametersOf = (name: string) => (name === 'said_about' ? { parameters: { subject: 't1' } } : {});
