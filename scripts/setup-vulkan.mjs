/**
 * Ensures that Dawn finds a Vulkan driver. If there is none it installs Mesa's drivers, which include lavapipe, a
 * software driver. That needs root; without it the commands are printed.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runAsRoot } from './run-as-root.mjs';
import {
  alternativeTo,
  commandsOf,
  decide,
  explainApt,
  parseOsRelease,
  parseTargets,
  undoOf,
} from './vulkan-plan.mjs';

const askScript = fileURLToPath(new URL('./ask-adapter.mjs', import.meta.url));
const askLimitMs = 60_000;
/** Limit of installations: the loader for an NVIDIA GPU and one driver package. More would be an endless loop. */
const maxInstalls = 2;

const say = (line) => process.stderr.write(`${line}\n`);

/** @returns whether there is a driver now. What is missing has been printed. */
export function setUpVulkan() {
  for (let installs = 0; ; installs++) {
    const step = decide(lookAround());
    if (step.kind === 'ready') {
      if (installs > 0) say(`Vulkan: ready (${step.note}).`);
      return true;
    }
    if (step.kind === 'refuse' || installs === maxInstalls) {
      say(
        `Vulkan: ${step.kind === 'refuse' ? step.message : 'the drivers were installed, but Dawn finds no adapter.'}`,
      );
      return false;
    }
    if (process.getuid?.() !== 0) {
      say(`Vulkan: no driver found, and installing one needs root. Run as root:`);
      for (const command of commandsOf(step)) say(`  ${command}`);
      return false;
    }
    if (!carryOut(step)) return false;
  }
}

function carryOut(step) {
  say(
    `Vulkan: installing ${step.what} (${step.packages.join(', ')}${step.release ? ` from ${step.release}` : ''}) ...`,
  );
  // `apt-get update` succeeds without reaching a server; only the installation after it fails.
  let output = '';
  for (const command of commandsOf(step)) {
    const { status, output: words } = runAsRoot(command);
    output += words;
    if (status === 0) continue;
    const undo = undoOf(step);
    if (undo) runAsRoot(undo);
    const other = alternativeTo(step);
    if (other) return carryOut(other);
    for (const line of output.trimEnd().split('\n').slice(-12)) say(`  ${line}`);
    say(`Vulkan: \`${command}\` failed: ${explainApt(output)}`);
    return false;
  }
  return true;
}

function lookAround() {
  const facts = { platform: process.platform, adapter: undefined, dawn: '' };
  if (process.platform !== 'linux') return facts;
  Object.assign(facts, askDawn());
  // The other facts matter only if Dawn finds no adapter.
  if (facts.adapter !== undefined) return facts;
  return {
    ...facts,
    gpus: gpuDevices(),
    loader: hasLoader(),
    lavapipe: list('/usr/share/vulkan/icd.d').some((name) => /^lvp_icd.*\.json$/.test(name)),
    mesa: printed('dpkg-query', ['-W', '-f', '${Version}', 'mesa-vulkan-drivers']) || undefined,
    apt: printed('apt-get', ['--version']) !== '',
    system: parseOsRelease(existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''),
    targets: parseTargets(
      printed('apt-get', ['indextargets', '--format', '$(RELEASE) $(REPO_URI)', 'Identifier: Packages']),
    ),
    archiveKeys: existsSync('/usr/share/keyrings/debian-archive-keyring.gpg'),
    driverFiles: process.env.VK_DRIVER_FILES || process.env.VK_ICD_FILENAMES || undefined,
  };
}

function askDawn() {
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [askScript], {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
    timeout: askLimitMs,
    killSignal: 'SIGKILL',
  });
  if (error?.code === 'ETIMEDOUT') return { dawn: `no response within ${askLimitMs / 1000} s` };
  if (/Cannot find (package|module)/.test(stderr ?? ''))
    return { dawn: 'its binding is not installed; run `npm ci`' };
  return status === 0 && stdout !== ''
    ? { adapter: stdout }
    : { dawn: (stderr || error?.message || '').trim() };
}

const gpuDevices = () => [
  ...list('/dev')
    .filter((name) => /^nvidia\d+$/.test(name))
    .map((name) => `/dev/${name}`),
  ...list('/dev/dri')
    .filter((name) => name.startsWith('renderD'))
    .map((name) => `/dev/dri/${name}`),
];

const hasLoader = () =>
  [printed('ldconfig', ['-p']), printed('/sbin/ldconfig', ['-p'])].some((known) =>
    known.includes('libvulkan.so.1'),
  ) || list('/usr/lib').some((folder) => existsSync(`/usr/lib/${folder}/libvulkan.so.1`));

function list(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Output of a command; empty if it is not installed or fails. */
function printed(command, args) {
  const { status, stdout } = spawnSync(command, args, {
    stdio: ['ignore', 'pipe', 'ignore'],
    encoding: 'utf8',
  });
  return status === 0 ? stdout : '';
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(setUpVulkan() ? 0 : 1);
