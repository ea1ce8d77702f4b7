import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { GatewayMetrics } from '../../src/telemetry/gateway-metrics.ts';

const fileOf = (path: string) => readFileSync(new URL(`../../deploy/${path}`, import.meta.url), 'utf8');
const families = new Map(
  new GatewayMetrics()
    .families({
      requestsInFlight: 0,
      breakers: [],
      config: { version: 1, isNewest: true, reloads: { replaced: 0, unchanged: 0, refused: 0 } },
      openHolds: 0,
      unsettled: 0,
      queuedOperations: 0,
    })
    .map(({ name, type }) => [name, type]),
);
const named = (text: string) => [...new Set(text.match(/lathe_gateway_\w+/g))];

describe.each(['grafana/gateway.json', 'prometheus/gateway-alerts.yaml'])('deploy/%s', (path) => {
  it('names metrics that the gateway has, histograms by their buckets', () => {
    const names = named(fileOf(path));
    expect(names.length).toBeGreaterThan(4);
    for (const name of names) {
      const family = name.replace(/_bucket$/, '');
      expect(families.get(family), name).toEqual(
        name === family ? expect.stringMatching(/counter|gauge/) : 'histogram',
      );
    }
  });
});

it('the dashboard shows every metric of the gateway but for what its alerts or operators read', () => {
  const shown = named(fileOf('grafana/gateway.json')).map((name) => name.replace(/_bucket$/, ''));
  expect([...families.keys()].filter((name) => !shown.includes(name)).sort()).toEqual([
    'lathe_gateway_breaker_changes_total',
    'lathe_gateway_config_refused',
    'lathe_gateway_config_reloads_total',
    'lathe_gateway_ledger_commits_total',
    'lathe_gateway_ledger_operations_total',
    'lathe_gateway_request_duration_seconds',
  ]);
});

it('each alert has an expression, a severity and what it means', () => {
  const { groups } = parse(fileOf('prometheus/gateway-alerts.yaml')) as { groups: { rules: object[] }[] };
  expect(groups[0]?.rules.length).toBeGreaterThan(5);
  for (const rule of groups.flatMap(({ rules }) => rules))
    expect(rule).toMatchObject({
      alert: expect.stringMatching(/^LatheGateway\w+$/),
      expr: expect.any(String),
      labels: { severity: expect.stringMatching(/^(warning|critical)$/) },
      annotations: { summary: expect.stringMatching(/\.$/) },
    });
});
