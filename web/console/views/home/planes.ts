interface Plane {
  readonly description: string;
  /** Path of its view. */
  readonly path?: string;
}

const planes: Readonly<Record<string, Plane>> = {
  host: { description: 'Identity, health and totals, shown on this page.' },
  v1: { description: 'OpenAI API: chat completions, responses and embeddings.', path: '/console/chat' },
  messages: { description: 'Anthropic API: messages.' },
  ollama: { description: 'Ollama API.' },
  'llama-cpp': { description: 'llama.cpp server API.' },
  lab: {
    description: 'Write, compare, bind and measure kernels of the resident model.',
    path: '/console/lab',
  },
  agent: {
    description: 'Tasks, pending changes, workflows and runs.',
    path: '/console/tasks',
  },
  gateway: { description: 'Gateway: one API key for many providers, under /gateway.' },
  observe: { description: 'Queries over the activity of the host.', path: '/console/observe' },
  recorder: { description: 'Recorder: what conversation content may be stored.', path: '/console/recorder' },
};

/** A host may have planes that this page does not know; the default text covers them. */
export const describePlane = (name: string): Plane =>
  planes[name] ?? { description: 'See the API reference at /docs.' };
