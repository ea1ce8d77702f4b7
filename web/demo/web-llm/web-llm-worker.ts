/** Runs web-llm in a separate worker, so that its code loads only on request. */
import { MLCEngine, ModelType, prebuiltAppConfig } from '@mlc-ai/web-llm';
import { errorMessage } from '../../../src/util/error-message.ts';
import type { Measured } from '../conversation.ts';
import { toMeasured } from './measured.ts';
import type { FromWorker, ToWorker } from './protocol.ts';

const send = (message: FromWorker) => postMessage(message);
let blocked: string | undefined;
addEventListener('securitypolicyviolation', ({ blockedURI }) => {
  blocked = blockedURI;
});

const engine = new MLCEngine({
  logLevel: 'SILENT',
  initProgressCallback: ({ progress, text }) => send({ kind: 'progress', share: progress, message: text }),
});

async function ask({ messages, sampling }: ToWorker & { kind: 'ask' }): Promise<void> {
  const chunks = await engine.chat.completions.create({
    messages: [...messages],
    ...sampling,
    stream: true,
    stream_options: { include_usage: true },
  });
  let finish: 'stop' | 'length' | undefined;
  let measured: Measured | undefined;
  for await (const { choices, usage } of chunks) {
    const [choice] = choices;
    if (choice?.delta.content) send({ kind: 'text', text: choice.delta.content });
    if (choice?.finish_reason === 'stop' || choice?.finish_reason === 'length') finish = choice.finish_reason;
    if (usage) measured = toMeasured(usage);
  }
  send({ kind: 'answered', finish, measured });
}

async function handleMessage(message: ToWorker): Promise<void> {
  if (message.kind === 'stop') return engine.interruptGenerate();
  if (message.kind === 'ask') return ask(message);
  blocked = undefined;
  await engine.reload(message.id);
  send({ kind: 'loaded' });
}

addEventListener('message', ({ data }: MessageEvent<ToWorker>) => {
  handleMessage(data).catch((error: unknown) => {
    const message = errorMessage(error);
    // The policy violation event arrives after the request has failed.
    setTimeout(() => send({ kind: 'failed', message, blocked }));
  });
});

send({
  kind: 'models',
  models: prebuiltAppConfig.model_list
    .filter(({ model_type: type }) => type === undefined || type === ModelType.LLM)
    .map(({ model_id: id, model, vram_required_MB: gpuMegabytes, required_features: features = [] }) => ({
      id,
      // The list has Hugging Face repositories; their files are under /resolve/main/.
      weights: `${model.replace(/\/$/, '')}${model.includes('/resolve/') ? '' : '/resolve/main'}/`,
      gpuMegabytes,
      features,
    })),
});
