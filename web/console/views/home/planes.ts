interface Plane {
  readonly what: string;
  /** Of the view that shows it. */
  readonly path?: string;
}

const planes: Readonly<Record<string, Plane>> = {
  host: { what: 'Identity, health and totals: this page.' },
  v1: { what: 'Chat completions, responses and embeddings, as OpenAI writes them.', path: '/console/chat' },
  messages: { what: 'Messages, as Anthropic writes them.' },
  ollama: { what: 'The routes that clients of Ollama ask.' },
  'llama-cpp': { what: 'The routes that clients of llama.cpp ask.' },
  lab: { what: 'The kernels of the resident model: write, compare, bind, measure.', path: '/console/lab' },
  agent: {
    what: 'Tasks, changes that wait for a person, workflows and their runs.',
    path: '/console/tasks',
  },
  gateway: { what: 'One key before many providers; below /gateway.' },
  observe: { what: 'Queries over all that the host did.', path: '/console/observe' },
  recorder: { what: 'What may be kept of what is said.', path: '/console/recorder' },
};

/** A host may have planes that this page does not know. */
export const planeOf = (name: string): Plane => planes[name] ?? { what: 'Described at /docs.' };
