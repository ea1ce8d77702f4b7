import { errorMessage } from '../../src/util/error-message.ts';
import type { ChatFailure } from '../engine/types.ts';

/** Why no model is loaded. */
export interface Failure {
  readonly code: ChatFailure;
  /** Message of the engine, with details. */
  readonly message: string;
}

const adviceByCode: Readonly<Record<ChatFailure, { readonly title: string; readonly action: string }>> = {
  no_webgpu: {
    title: 'This browser does not offer WebGPU to this page',
    action: 'Open the page in a browser that has it.',
  },
  no_adapter: {
    title: 'The browser has WebGPU, but found no GPU for it',
    action:
      'Update the graphics driver, turn on hardware acceleration in the browser settings, and restart the browser. ' +
      'chrome://gpu shows the reason in Chrome and Edge, about:support in Firefox.',
  },
  download_failed: {
    title: 'The model could not be downloaded',
    action:
      'Check that the address opens in a tab. If it does, its server does not allow other pages to read the file: it must ' +
      'send Access-Control-Allow-Origin (CORS), as huggingface.co does under /resolve/. You can also download the file ' +
      'and drop it here. Downloaded parts are kept, and loading again resumes from there.',
  },
  quota_exceeded: {
    title: 'The browser gives this page too little storage for the model',
    action:
      'Remove stored models, or free disk space; private windows have little storage. A file that you drop ' +
      'here needs no storage.',
  },
  bad_model: {
    title: 'Unsupported model file',
    action:
      'Choose a GGUF file of a supported architecture. Check that the file is not a web page saved under that name.',
  },
  does_not_fit: {
    title: 'The model does not fit on this GPU',
    action:
      'Choose a smaller model or quantization (Q4 instead of Q8), or close other programs that use the GPU.',
  },
  device_lost: {
    title: 'The GPU device was lost',
    action:
      'This happens when the driver restarts, memory runs out, or the machine sleeps. The conversation is still here: ' +
      'load the model again.',
  },
  invalid_request: { title: 'The engine refused the request', action: 'Change the settings and load again.' },
  closed: { title: 'The model was unloaded', action: 'Load it again.' },
  failed: {
    title: 'The model could not be loaded',
    action: 'Load it again. If that fails too, report the message above.',
  },
};

const isFailureCode = (code: unknown): code is ChatFailure =>
  typeof code === 'string' && Object.hasOwn(adviceByCode, code);

export function failureOf(error: unknown): Failure {
  const code: unknown =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return {
    code: isFailureCode(code) ? code : 'failed',
    message: errorMessage(error),
  };
}

export const failureAdvice = ({ code }: Failure) => adviceByCode[code];
