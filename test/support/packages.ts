/** The packages of this repository in folders outside of it, as a user installs them. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join } from 'node:path';
import { buildIfNeeded } from '../../scripts/build.mjs';
import { pack, type PackageName } from '../../scripts/packages.mjs';
import { repository } from './host.ts';

/** This Node comes first, and npm takes what it has downloaded before. */
const env = {
  ...process.env,
  PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}`,
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false',
  npm_config_update_notifier: 'false',
};

/** Packs a package into an empty folder. @returns the folder, with the tarball */
export function folderWithTarball(name: PackageName): string {
  if (!buildIfNeeded({ withPackages: true })) throw new Error('the build failed; see its output');
  const tarball = pack(name);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), `lathe-package-${name}-`)));
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
  copyFileSync(tarball, join(folder, basename(tarball)));
  return folder;
}

/** Runs commands of a page in a folder, to their end. @returns their standard output */
export function runIn(folder: string, commands: string, more: Readonly<Record<string, string>> = {}): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-ec', commands], {
    cwd: folder,
    env: { ...env, ...more },
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`${commands} failed:\n${stdout}\n${stderr}`);
  return stdout;
}

/** Starts a command that goes on, in its own process group. */
export function startIn(folder: string, command: string, more: Readonly<Record<string, string>> = {}) {
  const child = spawn('sh', ['-c', command], {
    cwd: folder,
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const closed = once(child, 'close');
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      child.emit('output');
    });
  return {
    /** Waits for text that the command prints; fails with all of it when the command ends before. */
    async until(pattern: RegExp): Promise<RegExpExecArray> {
      for (;;) {
        const found = pattern.exec(output);
        if (found) return found;
        const isOver = await Promise.race([once(child, 'output').then(() => false), closed.then(() => true)]);
        if (isOver && !pattern.test(output))
          throw new Error(`${command} ended without ${pattern}:\n${output}`);
      }
    },
    async end(): Promise<void> {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
      await closed;
    },
  };
}

/** Checks TypeScript files of a folder as a strict project does. @throws with what the compiler reports */
export function checkTypes(folder: string, files: readonly string[], module: 'nodenext' | 'bundler'): void {
  const config = {
    compilerOptions: {
      target: 'es2022',
      lib: ['es2022', 'dom', 'dom.iterable', 'dom.asynciterable'],
      ...(module === 'nodenext' ? { module: 'nodenext' } : { module: 'esnext', moduleResolution: 'bundler' }),
      types: ['node'],
      typeRoots: [join(repository, 'node_modules/@types')],
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: false,
      noEmit: true,
    },
    files,
  };
  const name = `tsconfig.${module}.json`;
  writeFileSync(join(folder, name), JSON.stringify(config));
  const tsc = join(repository, 'node_modules/typescript/bin/tsc');
  runIn(folder, `"${process.execPath}" "${tsc}" --pretty false -p ${name}`);
}

/** Blocks of code of a page, by their language, in order. */
export function blocksOf(page: string, language: string): string[] {
  const text = readFileSync(join(repository, page), 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm'))].map(
    ([, code = '']) => code,
  );
}

/** Paths of the files below a folder, sorted. */
export const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();
