/**
 * `npm run packages`: builds what is missing or stale, and packs the two packages of this repository, lathe and lathe-web, in
 * `dist/packages`. `packages/` has their manifests and READMEs.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildIfNeeded } from './build.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const output = join(root, 'dist/packages');
const readJson = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'));
const project = readJson('package.json');

/**
 * Contents of each package: files that keep their paths below `from`, and files with other names, by those. A bundle of a worker
 * has no list of licenses, so `bundled` names the dependencies that only workers contain.
 */
const packages = {
  lathe: {
    from: '.',
    files: [
      'LICENSE',
      'dist/*.js',
      'dist/third-party-licenses.md',
      'dist/chunks/*.js',
      'dist/web/**/*.{css,html,js,svg,md,woff2}',
      'gateway.example.toml',
      'models/lathe-tiny-q8_0.gguf',
      'wgsl/**/*.wgsl',
      'workflows/*.toml',
    ],
    renamed: {
      'dist/client.d.ts': 'dist/types/client.d.ts',
      'dist/define-kernel.d.ts': 'dist/types/lab.d.ts',
    },
    licenses: 'dist/web/third-party-licenses.md',
    bundled: ['@huggingface/jinja', '@mlc-ai/web-llm'],
    manifest: { bin: project.bin, dependencies: dependenciesOf(['@mlc-ai/web-xgrammar', 'webgpu']) },
  },
  'lathe-web': {
    from: 'dist/lathe-web',
    files: ['*.js', 'lathe-tiny-q8_0.gguf', 'third-party-licenses.md'],
    renamed: {
      LICENSE: 'LICENSE',
      'index.d.ts': 'dist/types/index.d.ts',
      'model.d.ts': 'dist/types/model.d.ts',
    },
    licenses: 'third-party-licenses.md',
    bundled: ['@huggingface/jinja'],
    manifest: {},
  },
};

/** Those that the bundles do not contain (vite.config.ts), in the versions that were tested. */
function dependenciesOf(names) {
  return Object.fromEntries(
    names.map((name) => [name, readJson(`node_modules/${name}/package.json`).version]),
  );
}

/**
 * Packs one package; what it needs is built.
 * @returns path of the tarball
 */
export function pack(name) {
  const { from, files, renamed, licenses, bundled, manifest } = packages[name];
  const folder = join(output, name);
  rmSync(folder, { recursive: true, force: true });
  const copy = (source, target) => {
    mkdirSync(dirname(join(folder, target)), { recursive: true });
    cpSync(join(root, source), join(folder, target));
  };
  for (const pattern of files) {
    const found = globSync(pattern, { cwd: join(root, from) });
    if (found.length === 0) throw new Error(`${name}: no file matches ${from}/${pattern}`);
    for (const file of found) copy(join(from, file), file);
  }
  for (const [target, source] of Object.entries(renamed)) copy(source, target);
  copy(`packages/${name}/README.md`, 'README.md');
  for (const dependency of bundled) {
    const { version, license } = readJson(`node_modules/${dependency}/package.json`);
    const text = readFileSync(join(root, `node_modules/${dependency}/LICENSE`), 'utf8');
    const entry = `\n## ${dependency} - ${version} (${license})\n\n${text}`;
    writeFileSync(join(folder, licenses), entry, { flag: 'a' });
  }
  const { version, license } = project;
  const whole = { ...readJson(`packages/${name}/package.json`), version, license, ...manifest };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(whole, null, 2)}\n`);
  const { status, stderr } = spawnSync('npm', ['pack', folder, '--pack-destination', output, '--silent'], {
    cwd: root,
    shell: process.platform === 'win32',
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`npm pack failed for ${name}: ${stderr}`);
  return join(output, `${name}-${version}.tgz`);
}

/** @returns path of each tarball, by name of the package */
export function packAll() {
  return Object.fromEntries(Object.keys(packages).map((name) => [name, pack(name)]));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  if (!buildIfNeeded({ withPackages: true })) process.exit(1);
  for (const file of Object.values(packAll())) process.stdout.write(`${file}\n`);
}
