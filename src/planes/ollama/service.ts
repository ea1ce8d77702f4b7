import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { ollamaError } from '../../wires/ollama/error.ts';
import { runningText, statusAnswer, versionAnswer } from './model-schema.ts';

/**
 * The version of Ollama whose wire this is. Clients compare it with what they need (structured output, tools) and refuse
 * servers below, so the host's own version would turn them away.
 */
const wireVersion = '0.32.0';

/** What clients look for to know that somebody is there. */
export function serviceRoutes(version: string) {
  return [
    defineRoute({
      method: 'GET',
      path: '/',
      operationId: 'ollamaRunning',
      summary: 'Is the host alive, in the words that clients of Ollama look for',
      answers: { 200: { description: 'It is.', content: { 'text/plain': runningText } } },
      handle: () => new Response('Ollama is running'),
    }),
    defineRoute({
      method: 'GET',
      path: '/api/version',
      operationId: 'ollamaVersion',
      summary: "The version of Ollama whose wire the host speaks, and the host's own",
      answers: { 200: { description: 'The versions.', content: { 'application/json': versionAnswer } } },
      handle: () => Response.json({ version: wireVersion, host_version: version }),
    }),
    defineRoute({
      method: 'GET',
      path: '/api/status',
      operationId: 'ollamaStatus',
      summary: 'Whether models of a cloud are served: never',
      answers: { 200: { description: 'They are not.', content: { 'application/json': statusAnswer } } },
      handle: () => Response.json({ cloud: { disabled: true, source: 'none' } }),
    }),
    ...absent.map(({ path, operationId, summary, why }) =>
      defineRoute({
        method: 'POST',
        path,
        operationId,
        summary,
        answers: { 501: { description: why, content: { 'application/json': ollamaError } } },
        handle: () => {
          throw new HttpError(501, 'not_supported', why);
        },
      }),
    ),
  ];
}

const account = 'This host has no accounts: it serves what is stored here.';
const absent = [
  {
    path: '/api/push',
    operationId: 'ollamaPush',
    summary: 'Publish a model: not served',
    why: 'This host publishes no models; upload the file to a hub with its own tools.',
  },
  { path: '/api/me', operationId: 'ollamaMe', summary: 'The account: there is none', why: account },
  { path: '/api/signout', operationId: 'ollamaSignout', summary: 'The account: there is none', why: account },
];
