import { homedir } from 'node:os';
import process from 'node:process';
import { packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';

// The composition root: the only file that reads argv and the environment. Everything else is imported after the
// restart, because an older Node would already fail on linking it.
await restartUnderCurrentNode();
const { main } = await import('./cli/main.ts');

await main({
  args: process.argv.slice(2),
  env: process.env,
  home: homedir(),
  packageRoot: packageRoot(),
  stdout: process.stdout,
  stderr: process.stderr,
  signals: process,
  exit: (code) => process.exit(code),
  elapsedMs: () => performance.now(),
  // Imported only when asked for: without --gpu the host runs where Dawn's binding does not load.
  async loadEngine(options) {
    const { loadEngine } = await import('./engine/index.ts');
    const { nodePlatform } = await import('./platform/node.ts');
    const { cacheDir, fileStore } = await import('./platform/node-store.ts');
    return await loadEngine(nodePlatform(fileStore(cacheDir(process.env))), options);
  },
  async pull(request) {
    const { pull } = await import('./pull/index.ts');
    return await pull(request);
  },
});
