/**
 * Ensures that the tests find PostgreSQL, bubblewrap and Chromium. Installs missing ones with apt if it runs as root,
 * and otherwise prints how to install them; the tests that need them are then skipped. Using the host needs none of
 * them.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromiumPath } from './chromium.mjs';
import { runAsRoot } from './run-as-root.mjs';
import { commandsOf, decide } from './services-plan.mjs';
import { explainApt } from './vulkan-plan.mjs';

const say = (line) => process.stderr.write(`${line}\n`);

/** @returns false only if an installation failed. What is missing has been printed. */
export function setUpServices() {
  const step = decide(lookAround());
  if (step.kind === 'ready') return true;
  if (step.kind === 'without') {
    say(step.message);
    return true;
  }
  say(`Tests: installing ${step.names} (${step.packages.join(', ')}) ...`);
  let output = '';
  for (const command of commandsOf(step)) {
    const { status, output: words } = runAsRoot(command);
    output += words;
    if (status === 0) continue;
    for (const line of output.trimEnd().split('\n').slice(-12)) say(`  ${line}`);
    say(`Tests: \`${command}\` failed: ${explainApt(output)}`);
    return false;
  }
  const left = decide(lookAround());
  if (left.kind === 'ready') return true;
  say(`Tests: ${left.kind === 'install' ? left.names : step.names}: installed, but not found.`);
  return false;
}

const lookAround = () => ({
  platform: process.platform,
  root: process.getuid?.() === 0,
  apt: isThere('apt-get'),
  // On Debian the server's programs are not in PATH but in one folder per version.
  postgres: isThere('initdb') || versions().some((folder) => existsSync(join(folder, 'bin/initdb'))),
  bubblewrap: isThere('bwrap') && spawnSync('bwrap', ['--version']).status === 0,
  chromium: chromiumPath() !== undefined,
});

const isThere = (program) =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)));

function versions() {
  const folder = '/usr/lib/postgresql';
  return existsSync(folder) ? readdirSync(folder).map((version) => join(folder, version)) : [];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(setUpServices() ? 0 : 1);
