import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { packageRoot } from './platform/node-package.ts';
import { hasControllingTerminal } from './platform/controlling-terminal.ts';
import { webBuildFiles } from './platform/web-build.ts';
import { restartUnderCurrentNode, restartWithFlags } from './platform/node-restart.ts';

// The gateway's composition root. As in host.ts, only this file reads argv and the environment, and everything else is
// imported after the restart.
await restartUnderCurrentNode();
// MiB, of two halves: what many requests at once allocate does not survive a collection of a young generation of this size.
if (process.argv.includes('serve', 2)) restartWithFlags({ '--max-semi-space-size': '128' });
const { gatewayMain } = await import('./gateway/cli/main.ts');

// The reader of a pipe may exit (`| head`): ignore EPIPE.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

await gatewayMain({
  args: process.argv.slice(2),
  env: process.env,
  home: homedir(),
  async version() {
    const { version } = JSON.parse(await readFile(join(packageRoot(), 'package.json'), 'utf8')) as {
      version: string;
    };
    return version;
  },
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  hasTerminal: hasControllingTerminal(),
  exit: (code) => process.exit(code),
  now: () => new Date(),
  async openDatabase(options) {
    const { openGatewayDatabase } = await import('./gateway/cli/gateway-database.ts');
    return await openGatewayDatabase(options);
  },
  async serve(options) {
    const { serveGateway } = await import('./gateway/serve/index.ts');
    return await serveGateway({ ...options, pages: webBuildFiles(packageRoot()) });
  },
});
