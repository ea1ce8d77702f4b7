/** What `deploy/kubernetes/hosts` promises: resources that fit the published schemas, and hosts that understand their flags. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { parseCommandLine } from '../../src/config/command-line.ts';
import { validatorOf } from '../support/schema-validator.ts';

const folder = new URL('../../deploy/kubernetes/hosts/', import.meta.url);
type Tree = Readonly<Record<string, unknown>>;
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: Tree;
  readonly data: Readonly<Record<string, string>>;
}
const files = readdirSync(folder).sort();
const manifests = new Map(
  files.map((name) => {
    const documents = parseAllDocuments(readFileSync(new URL(name, folder), 'utf8'), { uniqueKeys: true });
    expect(
      documents.map(({ errors }) => errors),
      name,
    ).toEqual([[]]);
    return [name, documents[0]?.toJS() as Manifest] as const;
  }),
);
const manifest = (name: string): Manifest => {
  const found = manifests.get(name);
  if (!found) throw new Error(`no ${name}`);
  return found;
};

/** As `kubectl apply --validate=strict`: members that the schema does not name are errors. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const node = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return 'properties' in node && !('additionalProperties' in node) && node['type'] === 'object'
    ? { ...node, additionalProperties: false }
    : node;
}

/** Reads a published schema. @returns whether a manifest fits it, and is of its group, version and kind */
function published(name: string) {
  const file = new URL(`../fixtures/kubernetes/${name}.json`, import.meta.url);
  const { group, version, kind, schema } = JSON.parse(readFileSync(file, 'utf8')) as {
    group: string;
    version: string;
    kind: string;
    schema: unknown;
  };
  const validate = validatorOf(closed(schema), 'draft7');
  if (!validate) throw new Error(`${name} is no schema`);
  return (one: Manifest) => one.apiVersion === `${group}/${version}` && one.kind === kind && validate(one);
}

const withSpec = (one: Manifest, spec: Tree): Manifest => ({ ...one, spec: { ...one.spec, ...spec } });
const labels = { 'app.kubernetes.io/name': 'lathe-host' };
const pod = manifest('deployment.yaml').spec['template'] as { spec: Tree; metadata: { labels: Tree } };
interface Container {
  readonly args: readonly string[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly readinessProbe: unknown;
  readonly startupProbe: unknown;
  readonly livenessProbe: unknown;
  readonly securityContext: Tree;
}
const [host, status] = pod.spec['containers'] as readonly [Container, Container];

describe('the inference pool', () => {
  const fits = published('inference-pool');
  const pool = manifest('inference-pool.yaml');

  test('fits the published schema, and wrong or unknown members do not', () => {
    expect(fits(pool)).toBe(true);
    expect(fits({ ...pool, apiVersion: 'inference.networking.x-k8s.io/v1alpha2' })).toBe(false);
    expect(fits(withSpec(pool, { targetPorts: [{ number: '8080' }] }))).toBe(false);
    expect(fits(withSpec(pool, { targetPortNumber: 8080 }))).toBe(false);
    expect(fits(withSpec(pool, { selector: labels }))).toBe(false);
    expect(fits(withSpec(pool, { endpointPickerRef: { name: 'a', failureMode: 'open' } }))).toBe(false);
  });

  test('selects the pods of the hosts, at their main port, and names the port of a service', () => {
    expect(pod.metadata.labels).toEqual(labels);
    expect(pool.spec).toMatchObject({
      selector: { matchLabels: labels },
      targetPorts: [{ number: host.ports[0]?.containerPort }],
      // A rule of the schema that only the cluster checks.
      endpointPickerRef: { kind: 'Service', port: { number: 9002 } },
    });
  });
});

describe('the scaled object', () => {
  const fits = published('scaled-object');
  const scaled = manifest('scaled-object.yaml');

  test('fits the published schema, and wrong or unknown members do not', () => {
    expect(fits(scaled)).toBe(true);
    expect(fits(withSpec(scaled, { minReplicas: 1 }))).toBe(false);
    expect(fits(withSpec(scaled, { maxReplicaCount: '8' }))).toBe(false);
    expect(fits(withSpec(scaled, { triggers: [{ type: 'prometheus' }] }))).toBe(false);
    expect(fits(withSpec(scaled, { triggers: [{ type: 'prometheus', metadata: { threshold: 8 } }] }))).toBe(
      false,
    );
  });

  test('scales the hosts by metrics that they have, with parameters of the scaler', () => {
    const { name } = manifest('deployment.yaml').metadata;
    expect(scaled.spec).toMatchObject({ scaleTargetRef: { kind: 'Deployment', name } });
    const [trigger] = scaled.spec['triggers'] as readonly { metadata: Record<string, string> }[];
    expect(Object.keys(trigger?.metadata ?? {}).sort()).toEqual(['query', 'serverAddress', 'threshold']);
    const names = trigger?.metadata['query']?.match(/vllm:\w+/g) ?? [];
    expect(names).toEqual(['vllm:num_requests_running', 'vllm:num_requests_waiting']);
    expect(host.args.join(' ')).toContain('--metrics-compat vllm');
  });
});

describe('the hosts', () => {
  test('understand their flags', () => {
    expect(parseCommandLine(host.args)).toMatchObject({
      verb: 'serve',
      options: { host: '0.0.0.0', port: 8080, control_port: 8081, metrics_compat: 'vllm' },
    });
  });

  test('are probed where no token is needed: health at the main port, readiness through the proxy', () => {
    expect(host).toMatchObject({
      startupProbe: { httpGet: { path: '/health', port: 'http' } },
      livenessProbe: { httpGet: { path: '/health', port: 'http' } },
      readinessProbe: { httpGet: { path: '/ready', port: 9090 } },
    });
    expect(status.ports).toEqual([{ name: 'status', containerPort: 9090 }]);
    const conf = manifest('status-proxy.yaml').data['nginx.conf'] ?? '';
    expect(conf).toContain('listen 9090;');
    const routes = [...conf.matchAll(/location (.*) \{\n\s*(.*);/g)].map(([, path, action]) => [
      path,
      action,
    ]);
    expect(routes).toEqual([
      ['= /metrics', 'proxy_pass http://127.0.0.1:8081'],
      ['= /ready', 'proxy_pass http://127.0.0.1:8081'],
      ['/', 'return 404'],
    ]);
  });

  test('have time to end, and the proxy outlives them', () => {
    const pause = host.lifecycle.preStop.sleep.seconds;
    expect(status.lifecycle.preStop.sleep.seconds).toBeGreaterThan(pause + 4);
    expect(pod.spec['terminationGracePeriodSeconds']).toBeGreaterThanOrEqual(pause + 5);
  });

  test('run as user nobody, and write nothing outside of their volumes', () => {
    expect(pod.spec['securityContext']).toMatchObject({ runAsNonRoot: true });
    for (const { securityContext } of [host, status])
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
  });

  test('are all named in the kustomization, in one namespace', () => {
    const { resources } = manifest('kustomization.yaml') as unknown as { resources: string[] };
    expect([...resources, 'kustomization.yaml'].sort()).toEqual(files);
    for (const [name, { kind, metadata }] of manifests)
      if (kind !== 'Kustomization') expect(metadata.namespace, name).toBe('lathe');
    for (const name of ['service.yaml', 'disruption-budget.yaml', 'network-policy.yaml'])
      expect(JSON.stringify(manifest(name).spec)).toContain(JSON.stringify(labels));
  });
});
