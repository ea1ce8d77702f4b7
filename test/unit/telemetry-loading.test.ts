/** OpenTelemetry's SDK is loaded only when a collector is configured, from the sources and from the build. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { build, mergeConfig } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import config from '../../vite.config.ts';
import { OtlpCollector } from '../support/otlp-collector.ts';

const run = promisify(execFile);
const source = new URL('../../src/telemetry/open.ts', import.meta.url);

/** Opens telemetry and sends a span in a process of its own; which modules that took. */
async function loaded(
  module: string,
  env: Record<string, string>,
): Promise<{ opened: boolean; urls: string[] }> {
  const program = `
    import { registerHooks } from 'node:module';
    const urls = [];
    registerHooks({ load(url, context, next) { urls.push(url); return next(url, context); } });
    const { openTelemetry } = await import(${JSON.stringify(module)});
    const telemetry = await openTelemetry({
      env: process.env, version: '1', instanceId: 'i',
      contentAllowed: () => false, redact: String, onNotice: (text) => { throw new Error(text); },
    });
    const work = { kind: 'run', id: 'r', attributes: { workflow: 'w' }, startedAt: new Date() };
    telemetry?.sink.onStart(work);
    telemetry?.sink.onEnd(work);
    await telemetry?.close();
    console.log(JSON.stringify({ opened: telemetry !== undefined, urls }));`;
  const { PATH = '' } = process.env;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], {
    env: { PATH, ...env },
  });
  return JSON.parse(stdout) as { opened: boolean; urls: string[] };
}

const withoutCollector = { OTEL_SERVICE_NAME: 'x' };
let folder: string;
let collector: OtlpCollector;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'lathe-telemetry-'));
  collector = await OtlpCollector.open();
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await collector.close();
});
const withCollector = () => ({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });

test('from the sources', async () => {
  const isSdk = (url: string) => url.includes('@opentelemetry');
  const without = await loaded(source.href, withoutCollector);
  expect(without.opened).toBe(false);
  expect(without.urls.length).toBeGreaterThan(0);
  expect(without.urls.filter(isSdk)).toEqual([]);
  const within = await loaded(source.href, withCollector());
  expect(within.urls.filter(isSdk).length).toBeGreaterThan(10);
  expect(collector.spans().at(-1)?.name).toBe('lathe.run');
});

test('from the build: a separate chunk, which works', async () => {
  const before = collector.spans().length;
  await build(
    mergeConfig(
      {
        ...config,
        build: { ...config.build, rolldownOptions: { ...config.build?.rolldownOptions, input: undefined } },
      },
      {
        configFile: false,
        root: fileURLToPath(new URL('../..', import.meta.url)),
        logLevel: 'silent',
        build: { outDir: folder, rolldownOptions: { input: { open: fileURLToPath(source) } } },
      },
    ),
  );
  const chunks = readdirSync(join(folder, 'chunks')).filter((name) =>
    readFileSync(join(folder, 'chunks', name), 'utf8').includes('BatchSpanProcessor'),
  );
  expect(chunks).toHaveLength(1);
  expect(readFileSync(join(folder, 'open.js'), 'utf8')).not.toMatch(/BatchSpanProcessor|@opentelemetry/);
  const module = pathToFileURL(join(folder, 'open.js')).href;
  const ofChunk = ({ urls }: { urls: string[] }) => urls.filter((url) => url.endsWith(chunks[0] ?? ''));
  expect(ofChunk(await loaded(module, withoutCollector))).toEqual([]);
  expect(ofChunk(await loaded(module, withCollector()))).toHaveLength(1);
  expect(collector.spans().length).toBe(before + 1);
});
