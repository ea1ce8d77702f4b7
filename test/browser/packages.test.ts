/**
 * `npm run packages`: the package lathe-web, installed in an empty folder. The example of its README, as it stands there, in pages
 * that Vite and webpack build, under Vite's server, and without a bundler from another origin.
 */
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { build, createServer } from 'vite';
import { noBrowser, TestBrowser } from '../support/browser.ts';
import { repository } from '../support/host.ts';
import { blocksOf, checkTypes, filesBelow, folderWithTarball, runIn } from '../support/packages.ts';
import { freePort } from '../support/local-server.ts';
import { openStaticSite, type StaticSite } from '../support/static-site.ts';

const readme = 'packages/lathe-web/README.md';
const [install = ''] = blocksOf(readme, 'sh');
const [example = ''] = blocksOf(readme, 'js');
const [, importMap = ''] = /```html\n([^]*?)```/.exec(readFileSync(join(repository, readme), 'utf8')) ?? [];
const model = 'lathe-tiny-q8_0.gguf';

/** Says when it has ended. */
const watched = `${example}document.title = 'done';\n`;
const page = (script: string) =>
  `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>A page</title>` +
  `<script>onerror = onunhandledrejection = (event) => (document.title = event.reason ?? event);</script>` +
  `<p id="status"></p><p id="answer"></p>${script}`;

/** What docs/browser.md asks for where the module is on another origin; the inline script is the import map. */
const policy = (origin: string) =>
  `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; ` +
  `script-src 'self' 'unsafe-inline' ${origin}; worker-src blob: ${origin}; connect-src 'self' ${origin}">`;

describe('the package lathe-web', () => {
  let folder = '';
  let installed = '';

  beforeAll(() => {
    folder = folderWithTarball('lathe-web');
    runIn(folder, install);
    installed = join(folder, 'node_modules/lathe-web');
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('contains modules, types and the model, and depends on nothing', () => {
    expect(filesBelow(installed)).toEqual([
      'LICENSE',
      'README.md',
      'index.d.ts',
      'index.js',
      model,
      'model.d.ts',
      'model.js',
      'package.json',
      'third-party-licenses.md',
      'worker.js',
    ]);
    expect(filesBelow(join(folder, 'node_modules')).filter((file) => !file.startsWith('lathe-web'))).toEqual([
      '.package-lock.json',
    ]);
    for (const file of ['index.js', 'model.js', 'worker.js'])
      expect(
        /\bimport\s*(?:[{*"'`(]|\w+ from)|\brequire\(|["'`]node:|\bprocess\.\w|sourceMappingURL/.exec(
          readFileSync(join(installed, file), 'utf8'),
        ),
        file,
      ).toBe(null);
  });

  it('has less than 600 kB packed, without the model', () => {
    const packed = statSync(join(folder, 'lathe-web-0.1.0.tgz')).size;
    const packedModel = gzipSync(readFileSync(join(installed, model))).length;
    expect(packed - packedModel).toBeLessThan(600_000);
    expect(packed - packedModel).toBeGreaterThan(100_000);
  });

  it('has neither the Markdown nor the math of the pages', () => {
    for (const file of ['index.js', 'worker.js'])
      expect(readFileSync(join(installed, file), 'utf8'), file).not.toMatch(
        /munderover|Math\/MathML|codespan/,
      );
  });

  it('has types, by which a model must be named', () => {
    const code = `${example.replaceAll(/querySelector\('(#\w+)'\)/g, "querySelector('$1')!")}\nexport {};\n`;
    writeFileSync(join(folder, 'main.ts'), code);
    checkTypes(folder, ['main.ts'], 'bundler');
    checkTypes(folder, ['main.ts'], 'nodenext');
    writeFileSync(join(folder, 'wrong.ts'), code.replace(/^ {2}model: .*$/m, ''));
    expect(() => checkTypes(folder, ['wrong.ts'], 'bundler')).toThrow(
      /error TS2345: .*\n.*'model' is missing/,
    );
  });

  it('is what docs/browser.md shows', () => {
    expect(blocksOf('docs/browser.md', 'js')[0]).toBe(example);
    expect(blocksOf('docs/browser.md', 'html')[0]).toBe(importMap.replaceAll(/^ {2}/gm, ''));
  });

  describe.skipIf(noBrowser !== undefined)(`in a page ${noBrowser ?? ''}`, () => {
    let browser: TestBrowser;
    beforeAll(async () => {
      browser = await TestBrowser.open();
      writeFileSync(join(folder, 'main.js'), watched);
      writeFileSync(join(folder, 'index.html'), page('<script type="module" src="./main.js"></script>'));
    });
    afterAll(() => browser?.close());

    /** The answer of the page, after which nothing has failed. @param others origins that it may load from */
    async function answerOf(url: string, others: readonly string[] = []): Promise<string> {
      const { page: opened, faults, close } = await browser.page({ url });
      try {
        await opened.waitForFunction(() => document.title !== 'A page');
        expect(await opened.title()).toBe('done');
        const unexpected = faults().filter(
          (fault) => !others.some((origin) => fault.startsWith(`request: ${origin}`)),
        );
        expect(unexpected).toEqual([]);
        expect(await opened.locator('#status').textContent()).toBe('lathe-tiny is ready');
        return (await opened.locator('#answer').textContent()) ?? '';
      } finally {
        await close();
      }
    }
    const withSite = async <T>(at: string, use: (site: StaticSite) => Promise<T>): Promise<T> => {
      const site = await openStaticSite(at);
      try {
        return await use(site);
      } finally {
        await site.close();
      }
    };
    const withoutModel = "import { createChat } from 'lathe-web';\nglobalThis.createChat = createChat;\n";

    it('answers in a page that Vite builds, which has the model only if it imports it', async () => {
      const outDir = join(folder, 'vite');
      const buildPage = () =>
        build({ root: folder, configFile: false, logLevel: 'warn', build: { outDir, emptyOutDir: true } });
      await buildPage();
      await withSite(outDir, async ({ url }) => expect(await answerOf(url)).toMatch(/\w/));
      writeFileSync(join(folder, 'main.js'), withoutModel);
      try {
        await buildPage();
      } finally {
        writeFileSync(join(folder, 'main.js'), watched);
      }
      expect(filesBelow(outDir).filter((file) => file.endsWith('.gguf'))).toEqual([]);
      expect(filesBelow(outDir).some((file) => /worker.*\.js$/.test(file))).toBe(true);
    });

    it("answers in a page of Vite's development server", async () => {
      const server = await createServer({
        root: folder,
        configFile: false,
        logLevel: 'warn',
        server: { host: '127.0.0.1', port: await freePort(), strictPort: true },
      });
      try {
        await server.listen();
        expect(await answerOf(server.resolvedUrls?.local[0] ?? '')).toMatch(/\w/);
      } finally {
        await server.close();
      }
    });

    it('answers in a page that webpack builds', async () => {
      const outDir = join(folder, 'webpack');
      await buildWithWebpack(folder, outDir);
      writeFileSync(join(outDir, 'index.html'), page('<script src="./main.js"></script>'));
      await withSite(outDir, async ({ url }) => expect(await answerOf(url)).toMatch(/\w/));
    });

    it('answers in a page without a bundler, also from the folder of another origin', async () => {
      const own = join(folder, 'static');
      mkdirSync(own);
      cpSync(installed, join(own, 'lathe-web'), { recursive: true });
      copyFileSync(join(folder, 'main.js'), join(own, 'main.js'));
      const html = page(`${importMap}<script type="module" src="./main.js"></script>`);
      writeFileSync(join(own, 'index.html'), html);
      const far = await openStaticSite(own, { headers: { 'access-control-allow-origin': '*' } });
      try {
        await withSite(own, async ({ url, requestedPaths }) => {
          const answer = await answerOf(url);
          expect(requestedPaths).toContain('lathe-web/worker.js');
          writeFileSync(
            join(own, 'index.html'),
            `<!doctype html>${policy(new URL(far.url).origin)}` +
              html.replaceAll('./lathe-web/', `${far.url}lathe-web/`),
          );
          const before = requestedPaths.length;
          expect(await answerOf(url, [far.url])).toBe(answer);
          expect(requestedPaths.slice(before)).toEqual(['.', 'main.js']);
          expect(far.requestedPaths).toEqual(
            expect.arrayContaining(
              ['index.js', 'model.js', 'worker.js', model].map((name) => `lathe-web/${name}`),
            ),
          );
        });
      } finally {
        await far.close();
      }
    });
  });
});

interface Webpack {
  (
    options: object,
    done: (error: Error | null, stats?: { hasErrors(): boolean; toString(): string }) => void,
  ): { close(done: () => void): void };
}

/** Installs webpack once, from a lock file, and builds `main.js` of a folder as Next does for the browser. */
async function buildWithWebpack(folder: string, outDir: string): Promise<void> {
  const fixture = join(repository, 'test/fixtures/webpack');
  const cache = join(repository, 'node_modules/.cache/lathe-webpack');
  const lock = readFileSync(join(fixture, 'package-lock.json'), 'utf8');
  const done = join(cache, 'installed-lock.json');
  if (!existsSync(done) || readFileSync(done, 'utf8') !== lock) {
    mkdirSync(cache, { recursive: true });
    for (const file of ['package.json', 'package-lock.json'])
      copyFileSync(join(fixture, file), join(cache, file));
    runIn(cache, 'npm ci --ignore-scripts');
    writeFileSync(done, lock);
  }
  const webpack = createRequire(join(cache, 'package.json'))('webpack') as Webpack;
  await new Promise<void>((resolve, reject) => {
    const compiler = webpack(
      {
        mode: 'production',
        context: folder,
        entry: './main.js',
        output: { path: outDir },
        performance: false,
      },
      (error, stats) => {
        const failure = error ?? (stats?.hasErrors() ? new Error(stats.toString()) : undefined);
        compiler.close(() => (failure ? reject(failure) : resolve()));
      },
    );
  });
}
