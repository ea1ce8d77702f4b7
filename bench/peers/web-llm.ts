/**
 * web-llm with a model library from a file, on the same Dawn binding as lathe. The library has the kernels and is
 * compiled for one shape; web-llm's npm package contains none and downloads them.
 */
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errorMessage } from '../../src/util/error-message.ts';
import { freshPrompt } from '../generation.ts';
import { withoutNodeDetection, installBrowserGlobals, origin } from './browser-globals.ts';
import { runContestant, timeAnswer } from './protocol.ts';

/** The part of web-llm that is used here. Its own types exist only after `npm --prefix bench/peers ci`. */
interface WebLlm {
  /** Version of the model libraries that this release needs. */
  readonly modelVersion: string;
  CreateMLCEngine(model: string, options: object): Promise<MlcEngine>;
}
interface MlcEngine {
  resetChat(): Promise<void>;
  forwardTokensAndSample(tokens: readonly number[], isPrefill: boolean): Promise<number>;
}

/** The newest release, and the last one for libraries of version 0.2.48, which newer releases refuse: they lack an import. */
const packageNames = ['@mlc-ai/web-llm', 'web-llm-0.2.79'] as const;
const libraryName = 'library.wasm';

/** Whether the library was compiled before the function existed that newer releases call at load. */
function needsOlderRelease(wasm: Uint8Array<ArrayBuffer>): boolean {
  const exported = WebAssembly.Module.exports(new WebAssembly.Module(wasm)).map(({ name }) => name);
  return !exported.some((name) => name.startsWith('TVMFFI'));
}

runContestant(async ({ modelPath, library, adapter }) => {
  if (library === undefined) throw new Error('web-llm needs a model library: --web-llm-lib PATH');
  installBrowserGlobals(adapter, ({ pathname }) => {
    const name = basename(pathname);
    return name === libraryName ? library : join(modelPath, name);
  });
  const packageName: string = needsOlderRelease(await readFile(library)) ? packageNames[1] : packageNames[0];
  const webLlm = (await import(packageName)) as WebLlm;
  const manifest = (await import(`${packageName}/package.json`, { with: { type: 'json' } })) as {
    default: { version: string };
  };
  const record = { model: `${origin}/model`, model_id: 'model', model_lib: `${origin}/${libraryName}` };
  const engine = await withoutNodeDetection(() =>
    webLlm.CreateMLCEngine('model', { appConfig: { model_list: [record] }, logLevel: 'WARN' }),
  ).catch((error: unknown) => {
    const reason = errorMessage(error);
    throw new Error(
      `web-llm did not load ${library}; it needs one made for ${webLlm.modelVersion}: ${reason}`,
      { cause: error },
    );
  });
  const device = await navigator.gpu.requestAdapter();
  return {
    name: `web-llm ${manifest.default.version}`,
    adapter: device?.info.description ?? 'unknown',
    software: device?.info.isFallbackAdapter ?? false,
    async generate({ context, tokens }) {
      await engine.resetChat();
      return await timeAnswer(freshPrompt(context), tokens, (tokenIds) =>
        engine.forwardTokensAndSample(tokenIds, tokenIds.length > 1),
      );
    },
  };
});
