/**
 * Installs the Python clients of OpenAI and Anthropic into a virtual environment of this folder, for the tests that use them.
 * Only wheels: nothing is compiled. Without it those tests are skipped, unless the system's python3 has the packages.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const path = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url));
const environment = path('.cache/python');
const requirements = path('test/support/libraries/python/requirements.txt');
const python = `${environment}/${process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python'}`;

const run = (program, ...args) => {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit' });
  if (error) process.stderr.write(`${program}: ${error.message}\n`);
  if (status !== 0) process.exit(1);
};

run('python3', '-m', 'venv', environment);
const options = ['--quiet', '--retries', '1', '--only-binary', ':all:'];
run(python, '-m', 'pip', 'install', ...options, '--requirement', requirements);
