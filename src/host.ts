import { homedir } from 'node:os';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { dependencyVersion, packageRoot } from './platform/node-package.ts';
import { restartUnderCurrentNode } from './platform/node-restart.ts';
import { errorMessage } from './util/error-message.ts';

/** Another entry of the program: TypeScript in development, beside this file's bundle when built. */
const entryBeside = (name: string): string =>
  fileURLToPath(new URL(`./${name}${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url));

// The composition root: the only file that reads argv and the environment. Everything else is imported after the
// restart, because an older Node would already fail on linking it.
await restartUnderCurrentNode();
const { main } = await import('./cli/main.ts');

// The reader may leave (`| head`, a terminal that closes): what follows is written to nobody, and the host ends in order.
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
  entry: entryBeside,
  // Imported only when asked for: without --gpu the host runs where Dawn's binding does not load.
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
      throw new TypeError('the lab needs an engine of its own process');
    const lab = await openLab({
      ...request,
      engine,
      wgsl: await nodePlatform().wgsl(),
      childPath: entryBeside('lab-child'),
      dawn: dependencyVersion('webgpu'),
      toggles: dawnOptions,
    });
    const close = () => lab.close();
    try {
      if (config !== undefined) {
        const bound = await lab.bindConfig(config, signal);
        request.onNotice(`bound the kernels of '${config}' to ${bound.length} components`);
      }
    } catch (error) {
      // A saved kernel that no longer passes must not keep the model from being served.
      request.onWarning(`the kernels of '${config}' are not bound: ${errorMessage(error)}`);
    }
    return { lab, close };
  },
  async openGrammars({ tokenizer, model }) {
    const { openGrammars } = await import('./grammar/index.ts');
    const { grammarThread } = await import('./platform/node-grammar.ts');
    const path = entryBeside('grammar-worker');
    return openGrammars({ tokenizer, vocabSize: model.vocabSize, startWorker: () => grammarThread(path) });
  },
  async pull(request) {
    const { pull } = await import('./pull/index.ts');
    return await pull(request);
  },
});
