/**
 * Makes sure that the tests find PostgreSQL, bubblewrap and Chromium; does nothing where they are. Installs them as root where
 * apt is, and says how otherwise: then the tests that need them are skipped. Nothing of it is needed to use the host.
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

/** @returns false only where they should have been installed and could not be; what is missing has been said */
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
  // Debian keeps the server's programs out of the path, a folder a version.
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
