import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { serve } from '../local-server.ts';
import { webhookFault } from '../webhook-receiver.ts';

export interface AskedHook {
  readonly path: string;
  readonly type: string;
  readonly data: {
    readonly hook: string;
    readonly request_id: string;
    readonly account_id: string;
    readonly key_id: string;
    readonly model: string;
    readonly wire: string;
    readonly stream: boolean;
    readonly texts: readonly {
      readonly index: number;
      readonly role?: string;
      readonly path?: string;
      readonly choice?: number;
      readonly name?: string;
      readonly text: string;
    }[];
  };
}

/** A verdict as JSON, or something that writes to the response itself. */
export type HookAnswer = object | ((response: ServerResponse) => void);

/** A service of hooks, which verifies every signature. */
export async function hookService(secret: string) {
  const asked: AskedHook[] = [];
  const faults: string[] = [];
  let answer: (question: AskedHook) => HookAnswer = () => ({ action: 'allow' });
  const server = await serve((request, response) => {
    void (async () => {
      const body = await text(request);
      const fault = webhookFault(request.headers, body, secret);
      if (fault !== undefined) faults.push(fault);
      const question = { path: request.url ?? '', ...(JSON.parse(body) as Omit<AskedHook, 'path'>) };
      asked.push(question);
      const given = answer(question);
      if (typeof given === 'function') given(response);
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(given));
    })();
  });
  return {
    url: server.url,
    asked,
    faults,
    answers(next: typeof answer) {
      answer = next;
    },
    close: () => server.close(),
  };
}
