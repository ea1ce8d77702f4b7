/** What `deploy/` promises: configurations that load, and manifests that keep to the rules of a gateway in a cluster. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { parseGatewayArgs } from '../../src/gateway/cli/commands.ts';
import { GatewayFile } from '../../src/gateway/config/gateway-file.ts';

const at = (path: string) => new URL(`../../deploy/${path}`, import.meta.url);
const read = (path: string) => readFileSync(at(path), 'utf8');

type Tree = Readonly<Record<string, unknown>>;
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}
interface Container {
  readonly name: string;
  readonly image: string;
  readonly args: readonly string[];
  readonly envFrom: readonly { readonly secretRef: { readonly name: string } }[];
  readonly resources: Readonly<Record<'requests' | 'limits', Tree>>;
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly securityContext: Tree;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts: readonly { readonly name: string }[];
}
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: Tree };
  readonly spec: Tree;
  readonly data: Readonly<Record<string, string>>;
  readonly stringData: Readonly<Record<string, string>>;
}

const files = readdirSync(at('kubernetes')).filter((name) => name.endsWith('.yaml'));
const manifests = new Map(
  files.map((name) => {
    const documents = parseAllDocuments(read(`kubernetes/${name}`), { strict: true, uniqueKeys: true });
    for (const document of documents) expect(document.errors, name).toEqual([]);
    expect(documents, name).toHaveLength(1);
    return [name, documents[0]?.toJS() as Manifest] as const;
  }),
);
const manifest = (name: string): Manifest => {
  const found = manifests.get(name);
  if (!found) throw new Error(`no ${name}`);
  return found;
};

/** The longest stream, and the time that closing may take in addition, in seconds. */
const [streamSecs, closeSecs] = [2400, 15];
const graceOf = (args: readonly string[]): number => {
  const command = parseGatewayArgs(args);
  if (command.name !== 'serve' || !('flags' in command)) throw new Error('does not serve');
  expect(command.flags).toMatchObject({ host: '0.0.0.0', port: 8090, config: '/etc/lathe/gateway.toml' });
  return command.flags['grace-secs'] ?? 0;
};
const pinned = /^[a-z0-9./-]+:\d+\.\d+[\w.-]*$/;

describe('the configuration', () => {
  const secret = manifest('secret.example.yaml').stringData;
  test('loads with the variables of the secret and the compose file', async () => {
    const env = Object.fromEntries(Object.keys(secret).map((name) => [name, 'sk-x']));
    const place = {
      name: 'gateway.toml',
      folder: '/',
      env: { ...env, LATHE_MASTER_KEY: Buffer.alloc(32).toString('hex') },
    };
    expect((await new GatewayFile(read('gateway.toml'), place).config()).models).not.toEqual([]);
    const compose = read('compose.yaml');
    for (const name of Object.keys(secret)) expect(compose).toContain(`${name}: `);
    for (const value of Object.values(secret))
      expect(value === '' || value.startsWith('postgres://lathe@')).toBe(true);
  });

  test('is the same in the cluster', () => {
    expect(manifest('config.yaml').data['gateway.toml']).toBe(read('gateway.toml'));
  });
});

describe('the manifests', () => {
  const { spec } = manifest('deployment.yaml');
  const template = spec['template'] as { metadata: { labels: Tree }; spec: Tree };
  const [gateway] = template.spec['containers'] as readonly Container[];
  if (!gateway) throw new Error('no container');

  test('are all named in the kustomization but the template of the secret', () => {
    const { resources } = manifest('kustomization.yaml') as unknown as { resources: string[] };
    expect([...resources, 'kustomization.yaml', 'secret.example.yaml'].sort()).toEqual([...files].sort());
    for (const [name, { kind, metadata }] of manifests)
      if (!['Namespace', 'Kustomization'].includes(kind)) expect(metadata.namespace, name).toBe('lathe');
  });

  test('a pod outlives the longest stream that it serves', () => {
    const grace = graceOf(gateway.args);
    expect(grace).toBeGreaterThanOrEqual(streamSecs);
    const pause = gateway.lifecycle.preStop.sleep.seconds;
    expect(pause).toBeGreaterThan(0);
    expect(template.spec['terminationGracePeriodSeconds']).toBeGreaterThanOrEqual(pause + grace + closeSecs);
  });

  test('liveness does not depend on the database, and readiness does', () => {
    const { startupProbe, readinessProbe, livenessProbe, ports } = gateway;
    expect(readinessProbe.httpGet.path).toBe('/ready');
    expect(livenessProbe.httpGet.path).toBe('/health');
    for (const { httpGet } of [startupProbe, readinessProbe, livenessProbe])
      expect(httpGet.port).toBe('http');
    expect(ports).toContainEqual({ name: 'http', containerPort: 8090 });
  });

  test('runs as user nobody, writes nothing and has resource limits', () => {
    expect(template.spec['automountServiceAccountToken']).toBe(false);
    expect(template.spec['securityContext']).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(gateway.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    for (const of of ['requests', 'limits'] as const)
      expect(Object.keys(gateway.resources[of]).sort()).toEqual(['cpu', 'memory']);
    expect(gateway.image).toMatch(pinned);
    const volumes = (template.spec['volumes'] as { name: string }[]).map(({ name }) => name);
    expect(gateway.volumeMounts.map(({ name }) => name)).toEqual(volumes);
  });

  test('references between manifests match', () => {
    const labels = { 'app.kubernetes.io/name': 'lathe-gateway' };
    expect(template.metadata.labels).toEqual(labels);
    expect(spec['selector']).toEqual({ matchLabels: labels });
    expect(manifest('service.yaml').spec).toMatchObject({
      selector: labels,
      ports: [{ targetPort: 'http' }],
    });
    expect(manifest('disruption-budget.yaml').spec).toEqual({
      maxUnavailable: 1,
      selector: { matchLabels: labels },
    });
    expect(manifest('network-policy.yaml').spec).toMatchObject({ podSelector: { matchLabels: labels } });
    expect(manifest('autoscaler.yaml').spec).toMatchObject({
      minReplicas: spec['replicas'],
      scaleTargetRef: { kind: 'Deployment', name: manifest('deployment.yaml').metadata.name },
    });
    expect(gateway.envFrom).toEqual([{ secretRef: { name: manifest('secret.example.yaml').metadata.name } }]);
    expect(template.spec['serviceAccountName']).toBe(manifest('service-account.yaml').metadata.name);
  });
});

describe('the compose file', () => {
  interface Service {
    readonly image: string;
    readonly command?: readonly string[];
    readonly user?: string;
    readonly read_only?: boolean;
    readonly cap_drop?: readonly string[];
    readonly healthcheck: Tree;
    readonly stop_grace_period?: string;
    readonly deploy: { readonly resources: { readonly limits: Tree } };
    readonly depends_on?: Readonly<Record<string, Tree>>;
  }
  const { services } = parse(read('compose.yaml'), { strict: true, merge: true }) as {
    services: Readonly<Record<string, Service>>;
  };
  const gateways = Object.entries(services).filter(([name]) => name.startsWith('gateway-'));

  test('has three gateways behind the load balancer', () => {
    expect(gateways).toHaveLength(3);
    const conf = read('nginx.conf');
    for (const [name, { command = [], stop_grace_period: stopGracePeriod = '' }] of gateways) {
      expect(conf).toContain(`server ${name}:8090 `);
      expect(services['balancer']?.depends_on).toHaveProperty(name);
      expect(Number.parseInt(stopGracePeriod, 10)).toBeGreaterThanOrEqual(graceOf(command) + closeSecs);
    }
    // The pauses that a gateway may make, and the size that it takes.
    expect(conf).toContain('proxy_read_timeout 300s;');
    expect(conf).toContain('proxy_buffering off;');
    expect(conf).toContain('client_max_body_size 32m;');
  });

  test('pins every image, bounds and watches every service; our services run as user nobody and write nothing', () => {
    for (const [name, service] of Object.entries(services)) {
      expect(service.image, name).toMatch(pinned);
      expect(Object.keys(service.deploy.resources.limits).sort(), name).toEqual(['cpus', 'memory']);
      // A colon in a plain scalar would make one of its words a mapping, which Compose refuses.
      const { test: probe } = service.healthcheck as { test: unknown[] };
      expect(
        probe.map((word) => typeof word),
        name,
      ).toEqual(probe.map(() => 'string'));
      if (name === 'postgres') continue;
      expect(service, name).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
      expect(service.user, name).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    }
    for (const variable of read('compose.yaml').matchAll(/\$\{(\w+):\?/g))
      expect(read('.env.example')).toMatch(new RegExp(`^${variable[1]}=$`, 'm'));
  });

  test('the image has a pinned Node and runs as user nobody', () => {
    const lines = read('Dockerfile').split('\n');
    for (const line of lines.filter((one) => one.startsWith('FROM ')))
      expect(line.split(' ')[1]).toMatch(pinned);
    // The last stage is the gateway's, which a build makes that names none.
    const last = lines.slice(lines.findLastIndex((one) => one.startsWith('FROM ')));
    expect(last.filter((one) => one.startsWith('USER '))).toEqual(['USER 10001:10001']);
    const start = last.find((one) => one.startsWith('CMD '))?.slice(4) ?? '';
    expect(graceOf(JSON.parse(start) as string[])).toBe(0);
  });
});

describe('docs/gateway.md', () => {
  const page = readFileSync(new URL('../../docs/gateway.md', import.meta.url), 'utf8');

  test('has a configuration that loads, and quotes a fault exactly', async () => {
    const source = /<<'TOML'\n(.*?)\nTOML\n/s.exec(page)?.[1] ?? '';
    const place = { name: 'gateway.toml', folder: '/', env: {} };
    expect((await new GatewayFile(source, place).config()).models.map(({ id }) => id)).toEqual(['tiny']);
    // The message alone: in the page it stands in a longer file.
    const quoted = /^gateway\.toml:21: (.*)$/m.exec(page)?.[1] ?? '';
    const faulty = source.replace('in_usd_per_mtok = "0.02"', 'in_usd_per_mtok = 0.15');
    const loaded = new GatewayFile(faulty, place).config();
    await expect(loaded).rejects.toThrow(quoted);
    expect(quoted).toMatch(/^models\[0\]\.in_usd_per_mtok: expected decimal text/);
  });

  test('has an example of deployments that loads', async () => {
    const source = /```toml\n(\[\[models\]\].*?)```/s.exec(page)?.[1] ?? '';
    const providers = ['east', 'west']
      .map((id) => `[[providers]]\nid = "${id}"\nwire = "openai-chat"\nbase_url = "http://${id}/v1"\n`)
      .join('');
    const place = { name: 'gateway.toml', folder: '/', env: {} };
    const { models } = await new GatewayFile(providers + source, place).config();
    expect(models[0]?.routing?.deployments.map(({ id }) => id)).toEqual(['east/chat', 'west/chat-2026']);
  });

  test('has the commands of the program', () => {
    const lines = [
      ...page.matchAll(/node dist\/gateway\.js ([a-z][^#&)\n]*)/g),
      ...page.matchAll(/^\| `([a-z]+ .*?)`/gm),
    ];
    expect(lines.length).toBeGreaterThan(10);
    for (const [, line = ''] of lines) {
      const words = line
        .replaceAll(/[[\]]/g, '')
        .replace('USD', '5')
        .replace('KIND:SLUG', 'a:b')
        .trim()
        .split(/ +/);
      const numbered = words.map((word, place) => (words[place - 1]?.match(/-(?:port|secs)$/) ? '1' : word));
      const host = numbered.map((word, place) => (words[place - 1] === '--host' ? '127.0.0.1' : word));
      expect(() => parseGatewayArgs(host), line).not.toThrow();
    }
  });
});
