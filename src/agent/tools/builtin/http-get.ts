import type { ReadTool } from '../../tool.ts';
import { type ResolveHost, systemResolve } from '../../../addresses/resolve.ts';
import { type FetchLimits, fetchText } from '../network/fetch-text.ts';
import { withRefusalAsOutput } from '../refusal.ts';
import { textSchema, objectSchema } from './schema.ts';

const defaultLimits: FetchLimits = {
  timeoutMs: 30_000,
  maxRedirects: 5,
  maxWireBytes: 4 * 1024 * 1024,
  maxBytes: 48 * 1024,
};

export const httpGet = (
  resolve: ResolveHost = systemResolve,
  limits: Partial<FetchLimits> = {},
): ReadTool => ({
  kind: 'read',
  name: 'http_get',
  description: 'Fetches a text from the web (GET over http or https), from hosts that were granted.',
  source: 'builtin',
  inputSchema: objectSchema({ url: textSchema('http:// or https://', 4096) }, ['url']),
  run: (args, { grants, signal }) =>
    withRefusalAsOutput(async () => {
      const fetched = await fetchText({
        url: String(args['url']),
        grants: grants.network,
        resolve,
        limits: { ...defaultLimits, ...limits },
        signal,
      });
      const { status, reason, url, type, text: body, truncated } = fetched;
      const head = [
        `HTTP ${status} ${reason}`.trim(),
        `url: ${url}`,
        ...(type === '' ? [] : [`type: ${type}`]),
      ];
      const rest = truncated ? '\n[only the beginning]' : '';
      return { ok: status < 400, output: `${head.join('\n')}\n\n${body}${rest}`, truncated };
    }),
});
