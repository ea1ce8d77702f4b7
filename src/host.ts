import { homedir } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { dependencyVersion, ownVersion, packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';
import { errorMessage } from './util/error-message.ts';

/**
 * Path of another entry point of the program: a TypeScript file in development, a bundle next to this one when built.
 */
const entryPath = (name: string): string =>
  fileURLToPath(new URL(`./${name}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url));

// Composition root: the only file that reads argv and the environment. Everything else is imported after the restart,
// because an older Node already fails to link it.
await restartUnderCurrentNode();
const { main } = await import('./cli/main.ts');

// The process that reads stdout may exit (`| head`, a closed terminal). Later writes are dropped, and the host still
// shuts down in order.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

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
  entry: entryPath,
  // Imported on demand: without --gpu the host also runs where Dawn's native binding cannot be loaded.
  async loadEngine(options) {
    const { loadEngine } = await import('./engine/index.ts');
    const { nodePlatform } = await import('./platform/node.ts');
    const { cacheDir, fileStore } = await import('./platform/node-store.ts');
    const { onNotice } = options;
    const hub = { token: process.env['HF_TOKEN'], endpoint: process.env['HF_ENDPOINT'] };
    return await loadEngine(nodePlatform(fileStore(cacheDir(process.env)), hub, { onNotice }), options);
  },
  async openLab({ engine, config, signal, ...request }) {
    const { openLab } = await import('./lab/index.ts');
    const { ResidentEngine } = await import('./engine/index.ts');
    const { nodePlatform } = await import('./platform/node.ts');
    const { dawnOptions } = await import('./platform/node-adapter.ts');
    if (!(engine instanceof ResidentEngine))
      throw new TypeError('the lab needs an engine in the same process');
    const lab = await openLab({
      ...request,
      engine,
      wgsl: await nodePlatform().wgsl(),
      childPath: entryPath('lab-child'),
      dawn: dependencyVersion('webgpu'),
      version: ownVersion(),
      toggles: dawnOptions(engine.dawnFeatures),
    });
    const close = () => lab.close();
    try {
      if (config !== undefined) {
        const bound = await lab.bindConfig(config, signal);
        request.onNotice(`bound the kernels of '${config}' to ${bound.length} components`);
      }
    } catch (error) {
      // A saved kernel that no longer passes its checks must not prevent the model from being served.
      request.onWarning(`the kernels of '${config}' could not be bound: ${errorMessage(error)}`);
    }
    return { lab, close };
  },
  async openGrammars({ tokenizer, model }) {
    const { createGrammarService } = await import('./grammar/index.ts');
    const { startGrammarThread } = await import('./platform/node-grammar.ts');
    const path = entryPath('grammar-worker');
    return createGrammarService({
      tokenizer,
      vocabSize: model.vocabSize,
      startWorker: () => startGrammarThread(path),
    });
  },
  async pull(request) {
    const { pull } = await import('./pull/pull.ts');
    return await pull(request);
  },
});
