import { HttpError } from '../../http/error.ts';
import { defineRoute } from '../../http/route.ts';
import { ollamaError } from '../../wires/ollama/error.ts';
import { runningText, statusAnswer, versionAnswer } from './model-schema.ts';

/**
 * The version of Ollama whose wire this is. Clients compare it with the version that a feature requires (structured
 * output, tools), so the host's own version would disable features.
 */
const wireVersion = '0.32.0';

/** Routes that clients use to detect the server. */
export function serviceRoutes(version: string) {
  return [
    defineRoute({
      method: 'GET',
      path: '/',
      operationId: 'ollamaRunning',
      summary: "Check that the host is alive, with the text that Ollama's clients expect",
      responses: { 200: { description: 'The host is alive.', content: { 'text/plain': runningText } } },
      handle: () => new Response('Ollama is running'),
    }),
    defineRoute({
      method: 'GET',
      path: '/api/version',
      operationId: 'ollamaVersion',
      summary: 'Get the compatible version of Ollama and the version of the host',
      responses: { 200: { description: 'The versions.', content: { 'application/json': versionAnswer } } },
      handle: () => Response.json({ version: wireVersion, host_version: version }),
    }),
    defineRoute({
      method: 'GET',
      path: '/api/status',
      operationId: 'ollamaStatus',
      summary: 'Get the status of cloud models, which are never served',
      responses: {
        200: { description: 'Cloud models are disabled.', content: { 'application/json': statusAnswer } },
      },
      handle: () => Response.json({ cloud: { disabled: true, source: 'none' } }),
    }),
    ...unsupportedRoutes.map(({ path, operationId, summary, reason }) =>
      defineRoute({
        method: 'POST',
        path,
        operationId,
        summary,
        responses: { 501: { description: reason, content: { 'application/json': ollamaError } } },
        handle: () => {
          throw new HttpError(501, 'not_supported', reason);
        },
      }),
    ),
  ];
}

const noAccountsReason = 'This host has no accounts; it serves locally stored models.';
const unsupportedRoutes = [
  {
    path: '/api/push',
    operationId: 'ollamaPush',
    summary: 'Publish a model: not served',
    reason: 'This host cannot publish models; upload the file with the tools of the hub.',
  },
  {
    path: '/api/me',
    operationId: 'ollamaMe',
    summary: 'The account: there is none',
    reason: noAccountsReason,
  },
  {
    path: '/api/signout',
    operationId: 'ollamaSignout',
    summary: 'The account: there is none',
    reason: noAccountsReason,
  },
];
