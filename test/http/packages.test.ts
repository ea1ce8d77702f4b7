/** `npm run packages`: the package lathe, installed in an empty folder, and the examples of its README as they stand there. */
import { cpSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { repository } from '../support/host.ts';
import { freePort } from '../support/local-server.ts';
import { blocksOf, checkTypes, filesBelow, folderWithTarball, runIn, startIn } from '../support/packages.ts';

const readme = 'packages/lathe/README.md';
const [install = '', request = ''] = blocksOf(readme, 'sh');
const [clientExample = '', kernelExample = ''] = blocksOf(readme, 'ts');

describe('the package lathe', () => {
  let folder = '';
  let host: ReturnType<typeof startIn> | undefined;
  const port = freePort();
  const onPort = async (text: string) => text.replaceAll('8080', String(await port));

  beforeAll(() => {
    folder = folderWithTarball('lathe');
    // The last line starts the host, which does not end.
    runIn(folder, install.replace(/^npx lathe .*$/m, ''));
  });
  afterAll(async () => {
    await host?.end();
    rmSync(folder, { recursive: true, force: true });
  });

  it('contains what runs, and no sources, tests or source maps', () => {
    const files = filesBelow(join(folder, 'node_modules/lathe')).map((file) => file.replaceAll('\\', '/'));
    const kinds = new Set(
      files.map((file) => file.replace(/^((?:[^/]+\/)*)[^/]*?((?:\.d)?\.[a-z\d]+)?$/, '$1*$2')),
    );
    expect([...kinds].sort()).toEqual([
      '*',
      '*.json',
      '*.md',
      '*.toml',
      'dist/*.d.ts',
      'dist/*.js',
      'dist/*.md',
      'dist/chunks/*.js',
      'dist/web/*.html',
      'dist/web/*.md',
      'dist/web/*.svg',
      'dist/web/assets/*.css',
      'dist/web/assets/*.js',
      'dist/web/assets/*.woff2',
      'dist/web/demo/*.html',
      'dist/web/demo/*.js',
      'dist/web/engine/*.js',
      'dist/web/gateway/*.html',
      'models/*.gguf',
      'wgsl/*.wgsl',
      'wgsl/lab/*.wgsl',
      'wgsl/lab/lib/*.wgsl',
      'wgsl/lib/*.wgsl',
      'workflows/*.toml',
    ]);
    expect(files).toEqual(expect.arrayContaining(['LICENSE', 'README.md']));
    expect(statSync(join(folder, 'lathe-0.1.0.tgz')).size).toBeLessThan(12_000_000);
  });

  it('is built from the files that deploy/Dockerfile copies', () => {
    const context = join(folder, 'context');
    mkdirSync(context);
    const ignore = readFileSync(join(repository, 'deploy/Dockerfile.dockerignore'), 'utf8')
      .trim()
      .split('\n');
    expect(ignore[0]).toBe('**');
    for (const line of ignore.slice(1)) {
      expect(line).toMatch(/^!\w/);
      cpSync(join(repository, line.slice(1)), join(context, line.slice(1)), { recursive: true });
    }
    symlinkSync(join(repository, 'node_modules'), join(context, 'node_modules'));
    runIn(context, 'npm run packages');
    // Hashes in names depend on where the dependencies are.
    const namesIn = (at: string) =>
      filesBelow(at)
        .map((file) => file.replace(/-[\w-]{8}\.(?=js|css)/, '.'))
        .sort();
    expect(namesIn(join(context, 'dist/packages/lathe'))).toEqual(
      namesIn(join(folder, 'node_modules/lathe')),
    );
  });

  it.each(['lathe', 'lathe-agent', 'lathe-gateway', 'lathe-lab', 'lathe-observe'])(
    'runs `npx %s`',
    (command) => {
      expect(runIn(folder, `npx ${command} --version`)).toMatch(/\b0\.1\.0\b/);
      expect(runIn(folder, `npx ${command} --help`)).toMatch(new RegExp(`${command} (COMMAND|\\[|--)`));
    },
  );

  it('has the types of lathe/client and lathe/lab, for the examples of the documentation', () => {
    writeFileSync(join(folder, 'client.ts'), clientExample);
    writeFileSync(join(folder, 'kernel.ts'), kernelExample);
    const [agents = ''] = blocksOf('docs/agents.md', 'ts');
    writeFileSync(
      join(folder, 'agents.ts'),
      `declare function isGood(diff: unknown): Promise<boolean>;\n${agents}`,
    );
    const [kernels = ''] = blocksOf('docs/write-a-kernel.md', 'ts');
    writeFileSync(join(folder, 'kernels.ts'), kernels);
    const files = ['client.ts', 'kernel.ts', 'agents.ts', 'kernels.ts'];
    checkTypes(folder, files, 'nodenext');
    checkTypes(folder, files, 'bundler');
    writeFileSync(join(folder, 'wrong.ts'), kernelExample.replace("op: 'rms_norm'", 'op: 1'));
    expect(() => checkTypes(folder, ['wrong.ts'], 'nodenext')).toThrow(/wrong\.ts\(5,3\): error TS2322/);
  });

  it('serves the embedded model, and its own clients', async () => {
    const start = /^npx lathe .*$/m.exec(install)?.[0] ?? '';
    host = startIn(folder, `${start} --port ${await port}`, { LATHE_DATA_DIR: join(folder, 'data') });
    await host.until(/lathe .* ready at /);
    const answer = JSON.parse(runIn(folder, await onPort(request))) as {
      choices: { message: { content: string }; finish_reason: string }[];
    };
    expect(answer.choices[0]?.message.content).toMatch(/\w/);

    writeFileSync(join(folder, 'client.mjs'), await onPort(clientExample));
    expect(runIn(folder, 'node client.mjs')).toMatch(/^\[.*\]\n$/s);
    // A grammar: its library is a dependency beside the package.
    const constrained = await fetch(await onPort('http://127.0.0.1:8080/v1/chat/completions'), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'Yes or no?' }],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'answer', strict: true, schema: { type: 'boolean' } },
        },
      }),
    });
    const { choices } = (await constrained.json()) as typeof answer;
    expect(choices[0]?.message.content.trim()).toMatch(/^(true|false)$/);
    const ops = runIn(folder, `npx lathe-lab ops --url ${await onPort('http://127.0.0.1:8080')}`);
    expect(ops).toContain('rms_norm');
    for (const path of ['/', '/engine/lathe.js', '/models/lathe-tiny-q8_0.gguf', '/docs'])
      expect((await fetch(`http://127.0.0.1:${await port}${path}`, { method: 'HEAD' })).status).toBe(200);
  });
});
