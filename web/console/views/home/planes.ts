interface Plane {
  readonly what: string;
  /** Path of its view. */
  readonly path?: string;
}

const planes: Readonly<Record<string, Plane>> = {
  host: { what: 'Identity, health and totals, shown on this page.' },
  v1: { what: 'OpenAI API: chat completions, responses and embeddings.', path: '/console/chat' },
  messages: { what: 'Anthropic API: messages.' },
  ollama: { what: 'Ollama API.' },
  'llama-cpp': { what: 'llama.cpp server API.' },
  lab: { what: 'Write, compare, bind and measure kernels of the resident model.', path: '/console/lab' },
  agent: {
    what: 'Tasks, pending changes, workflows and runs.',
    path: '/console/tasks',
  },
  gateway: { what: 'Gateway: one API key for many providers, under /gateway.' },
  observe: { what: 'Queries over the activity of the host.', path: '/console/observe' },
  recorder: { what: 'Recorder: what conversation content may be stored.', path: '/console/recorder' },
};

/** A host may have planes that this page does not know; the default text covers them. */
export const planeOf = (name: string): Plane => planes[name] ?? { what: 'See the API reference at /docs.' };
