import type { ReadTool } from '../../tool.ts';
import { type Resolve, systemResolve } from '../../../addresses/resolve.ts';
import { type FetchLimits, fetchText } from '../network/fetch-text.ts';
import { answering } from '../refusal.ts';
import { aText, anObject } from './schema.ts';

const usual: FetchLimits = {
  timeoutMs: 30_000,
  mostRedirects: 5,
  mostWireBytes: 4 * 1024 * 1024,
  mostBytes: 48 * 1024,
};

export const httpGet = (resolve: Resolve = systemResolve, limits: Partial<FetchLimits> = {}): ReadTool => ({
  kind: 'read',
  name: 'http_get',
  description: 'Fetches a text from the web (GET over http or https), from hosts that were granted.',
  source: 'builtin',
  inputSchema: anObject({ url: aText('http:// or https://', 4096) }, ['url']),
  run: (args, { grants, signal }) =>
    answering(async () => {
      const fetched = await fetchText({
        url: String(args['url']),
        grants: grants.network,
        resolve,
        limits: { ...usual, ...limits },
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
