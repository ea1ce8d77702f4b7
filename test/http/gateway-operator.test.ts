import { afterEach, describe, expect, it } from 'vitest';
import { freshSqlite } from '../support/databases.ts';
import { wires } from '../support/gateway/asks.ts';
import { gatewayProcess, writeConfig } from '../support/gateway/gateways.ts';
import { fakeProvider } from '../support/gateway/provider.ts';
import { ask, customerOf, nanoOf, soldAt, Witness } from '../support/gateway/world.ts';
import { ledgerOn } from '../support/ledger.ts';
import { readPrometheus } from '../support/prometheus.ts';

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).toReversed()) await step();
});

const say = { text: 'A secret answer.', usage: { input: 11, output: 7 } };
const { path, body } = wires.chat;

/** A gateway process with an operator listener and a log. */
async function world(flags: readonly string[] = ['--log-format', 'json']) {
  const provider = await fakeProvider([{ say }]);
  undo.push(() => provider.close());
  const database = freshSqlite();
  const config = writeConfig(soldAt(provider), 'breaker_failures = 2\nbreaker_secs = 600\nretries = 1\n');
  const gateway = await gatewayProcess(config, database, ['--admin-port', '0', ...flags]);
  undo.push(() => gateway.end());
  const witness = new Witness(await ledgerOn(database));
  undo.push(() => witness.books.close());
  const customer = await customerOf(witness.books);
  const [, adminUrl = ''] = /metrics on (\S+)\/metrics/.exec(gateway.output.stdout) ?? [];
  const metrics = async () => {
    const found = readPrometheus(await (await fetch(`${adminUrl}/metrics`)).text());
    return (name: string, ...labels: string[]) =>
      (found.get(name.replace(/_count$/, ''))?.samples ?? []).find(
        (one) =>
          one.name === name &&
          labels.every((label) => Object.entries(one.labels).some((pair) => pair.join('=') === label)),
      )?.value;
  };
  const log = () =>
    gateway.output.stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const asking = (model: string, stream = false, by = customer) =>
    ask(gateway.url, path, { customer: by, body: body(model, stream) });
  return { provider, gateway, witness, customer, adminUrl, metrics, log, asking };
}

describe('the operator of a gateway', () => {
  it('sees requests, attempts, money, holds and breakers in the metrics, and each failure in the log', async () => {
    const { provider, gateway, witness, customer, adminUrl, metrics, log, asking } = await world();
    const held = Promise.withResolvers<void>();
    provider.script((_, index) => (index === 0 ? { status: 503 } : { say, hold: () => held.promise }));
    const streamed = asking('chat', true);
    // The first attempt failed, the second one is at the provider.
    await expect.poll(() => provider.open).toBe(1);
    await expect.poll(async () => (await metrics())('lathe_gateway_holds_open')).toBe(1);
    expect((await metrics())('lathe_gateway_requests_in_flight')).toBeGreaterThanOrEqual(1);
    held.resolve();
    await (await streamed).text();
    provider.script([{ say }]);
    expect((await asking('claude')).status).toBe(200);
    expect((await asking('nobody')).status).toBe(404);
    const read = await metrics();
    expect(read('lathe_gateway_requests_total', 'provider=at-chat', 'outcome=ok')).toBe(1);
    expect(read('lathe_gateway_requests_total', 'outcome=refused')).toBe(1);
    expect(read('lathe_gateway_attempts_total', 'provider=at-chat', 'outcome=retried')).toBe(1);
    expect(read('lathe_gateway_attempts_total', 'provider=at-chat', 'outcome=ok')).toBe(1);
    expect(read('lathe_gateway_provider_response_seconds_count', 'provider=at-chat')).toBe(2);
    expect(read('lathe_gateway_admission_seconds_count')).toBe(2);
    expect(read('lathe_gateway_time_to_first_token_seconds_count')).toBe(1);
    expect(read('lathe_gateway_tokens_total', 'model=claude', 'type=output')).toBe(7);
    const cost = nanoOf({ fresh: 11, output: 7 });
    expect(read('lathe_gateway_cost_nanousd_total', 'model=chat')).toBe(Number(cost));
    expect(read('lathe_gateway_holds_open')).toBe(0);
    expect(read('lathe_gateway_ledger_operations_total', 'outcome=ok')).toBeGreaterThanOrEqual(4);
    expect(read('lathe_gateway_ledger_commits_total', 'outcome=ok')).toBeGreaterThan(0);

    // Two callers fail, so the breaker opens.
    provider.script([{ status: 500 }]);
    const other = await customerOf(witness.books);
    for (const by of [customer, other, customer]) await (await asking('gemini', false, by)).text();
    expect((await metrics())('lathe_gateway_breaker_open', 'model=gemini')).toBe(1);
    expect((await metrics())('lathe_gateway_breaker_open', 'model=chat')).toBe(0);
    await expect.poll(() => log().filter(({ event }) => event === 'request').length).toBe(6);
    const [failed, streamedEnd, , refused] = log();
    expect(failed).toMatchObject({
      level: 'warn',
      event: 'attempt_failed',
      provider: 'at-chat',
      attempt: 0,
      status: 502,
      retry_in_ms: expect.any(Number),
    });
    expect(streamedEnd).toMatchObject({
      level: 'info',
      event: 'request',
      request_id: failed?.['request_id'],
      outcome: 'ok',
      status: 200,
      stream: true,
      key_id: customer.keyId,
      model: 'chat',
      provider: 'at-chat',
      prompt_tokens: 11,
      completion_tokens: 7,
      cost_nanousd: Number(cost),
    });
    expect(refused).toMatchObject({
      level: 'warn',
      outcome: 'refused',
      status: 404,
      code: 'model_not_found',
    });
    expect(log().filter(({ event }) => event === 'breaker')).toEqual([
      expect.objectContaining({ provider: 'at-gemini', model: 'gemini', state: 'open' }),
    ]);
    for (const secret of ['secret answer', customer.secret, 'sk-house'])
      expect(gateway.output.stderr).not.toContain(secret);

    expect((await fetch(`${adminUrl}/ready`)).status).toBe(200);
    expect(await (await fetch(`${adminUrl}/v1/balance`)).json()).toMatchObject({
      error: { code: 'not_found' },
    });
    // The metrics are not on the listener of the callers.
    expect((await fetch(`${gateway.url}/metrics`)).status).toBe(404);
  });

  it('is told that the gateway stops while requests end', async () => {
    const { provider, gateway, adminUrl, asking } = await world();
    const held = Promise.withResolvers<void>();
    provider.script([{ say, hold: () => held.promise }]);
    const streamed = asking('chat', true);
    await expect.poll(() => provider.open).toBe(1);
    gateway.kill('SIGTERM');
    await expect.poll(async () => (await fetch(`${adminUrl}/ready`)).status).toBe(503);
    held.resolve();
    expect(await (await streamed).text()).toContain('[DONE]');
    expect(await gateway.exit).toEqual({ code: 0, signal: null });
  });

  it('chooses which successful requests are logged', async () => {
    const { gateway, asking } = await world(['--log-format', 'text', '--log-sample', '0']);
    await (await asking('chat')).text();
    await (await asking('nobody')).text();
    await expect.poll(() => gateway.output.stderr).toContain('outcome=refused');
    expect(gateway.output.stderr.trimEnd().split('\n')).toEqual([
      expect.stringMatching(
        /^\S+Z warn request request_id=\S+ outcome=refused status=404 code=model_not_found /,
      ),
    ]);
  });
});
