import { errorMessage } from '../../src/util/error-message.ts';
import type { ChatFailure } from '../engine/types.ts';

/** Why there is no model, for people: what happened, and what can be done about it here. */
export interface Failure {
  readonly code: ChatFailure;
  /** The engine's own words, with the numbers. */
  readonly message: string;
}

const advice: Readonly<Record<ChatFailure, { readonly title: string; readonly toDo: string }>> = {
  no_webgpu: {
    title: 'This browser does not offer WebGPU to this page',
    toDo: 'Open the page in a browser that has it.',
  },
  no_adapter: {
    title: 'The browser has WebGPU, but found no GPU for it',
    toDo:
      'Update the graphics driver, switch hardware acceleration on in the settings of the browser, and restart it. ' +
      'chrome://gpu says why in Chrome and Edge, about:support in Firefox.',
  },
  download_failed: {
    title: 'The model could not be downloaded',
    toDo:
      'Look whether the address opens in a tab. If it does, its server does not let other pages read the file: it must ' +
      'send Access-Control-Allow-Origin (CORS), as huggingface.co does below /resolve/. Or download the file yourself ' +
      'and drop it here. What came so far is kept; loading again goes on from there.',
  },
  quota_exceeded: {
    title: 'The browser gives this page too little room to keep the model',
    toDo:
      'Remove models from the list of those kept, or free space on the disk; private windows get little room. A file of yours that is dropped ' +
      'here needs none of it.',
  },
  bad_model: {
    title: 'This is no model that lathe can read',
    toDo: 'Choose a GGUF file of a supported architecture. A web page that was saved under that name is none.',
  },
  does_not_fit: {
    title: 'The model does not fit on this GPU',
    toDo: 'Choose a smaller model or a smaller quantisation of it (Q4 in place of Q8), or close what else uses the GPU.',
  },
  device_lost: {
    title: 'The GPU was lost',
    toDo:
      'That happens when its driver restarts, memory runs out, or the machine sleeps. The conversation is still here: ' +
      'load the model again.',
  },
  invalid_request: { title: 'The engine refused what it was asked', toDo: 'Change it and load again.' },
  closed: { title: 'The model was unloaded', toDo: 'Load it again.' },
  failed: {
    title: 'The model could not be loaded',
    toDo: 'Load it again; if that fails too, report the words above.',
  },
};

const isKnown = (code: unknown): code is ChatFailure =>
  typeof code === 'string' && Object.hasOwn(advice, code);

export function failureOf(error: unknown): Failure {
  const code: unknown =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  return {
    code: isKnown(code) ? code : 'failed',
    message: errorMessage(error),
  };
}

export const adviceOf = ({ code }: Failure) => advice[code];
