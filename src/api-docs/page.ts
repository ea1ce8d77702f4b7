import { createHash } from 'node:crypto';
import type { Json } from '../util/json.ts';

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --accent: #b4541a; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .6rem 0; }
summary { padding: .5rem .8rem; cursor: pointer; } details > div { padding: 0 .8rem .8rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; } pre { background: var(--soft); padding: .7rem; overflow: auto; }
.method { color: var(--accent); font-weight: 700; display: inline-block; min-width: 3.5rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: .25rem .5rem; border-bottom: 1px solid var(--line); }
`;

/** Content security policy: the page has no scripts and loads no resources, so it works offline. */
const policy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Renders an OpenAPI document as an HTML page. @param source path of the document */
export function renderDocsPage(
  document: Json,
  source: string,
): { readonly html: string; readonly headers: Readonly<Record<string, string>> } {
  const info = document['info'] as Json;
  const tags = (document['tags'] ?? [{ name: 'Routes', description: '' }]) as readonly Json[];
  const schemas = (document['components'] as Json)['schemas'] as Json;
  const html = [
    '<!doctype html><html lang="en"><head><meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${escape(info['title'])} API</title><style>${style}</style></head><body>`,
    `<h1>${escape(info['title'])} ${escape(info['version'])}</h1><p>${escape(info['description'] ?? '')}`,
    ` OpenAPI document: <a href="${escape(source)}">${escape(source)}</a>.</p>`,
    ...tags.map((tag) => tagSection(tag, document['paths'] as Json)),
    '<h2 id="schemas">Schemas</h2>',
    ...Object.entries(schemas).map(([name, schema]) => schemaSection(name, schema as Json)),
    '</body></html>',
  ].join('\n');
  return {
    html,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'referrer-policy': 'same-origin',
      'x-frame-options': 'DENY',
    },
  };
}

function tagSection(tag: Json, paths: Json): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods as Json)
      // A document without tags has one section.
      .filter(([, operation]) => {
        const { tags } = operation as { tags?: readonly unknown[] };
        return tags === undefined || tags.includes(tag['name']);
      })
      .map(([method, operation]) => operationSection(method, path, operation as Json)),
  );
  return [`<h2>${escape(tag['name'])}</h2><p>${escape(tag['description'])}</p>`, ...operations].join('\n');
}

function operationSection(method: string, path: string, operation: Json): string {
  const parameters = (operation['parameters'] ?? []) as readonly Json[];
  const body = operation['requestBody'] as Json | undefined;
  const responses = Object.entries(operation['responses'] as Json).map(([status, answer]) => {
    const { description, content } = answer as Json;
    return `<tr><td><code>${escape(status)}</code></td><td>${escape(description)}</td><td>${contentLinks(content)}</td></tr>`;
  });
  return [
    `<details><summary><code><span class="method">${escape(method.toUpperCase())}</span> ${escape(path)}</code> ${escape(operation['summary'])}</summary><div>`,
    operation['description'] ? `<p>${escape(operation['description'])}</p>` : '',
    ...parameters.map(
      (parameter) =>
        `<p>In the ${escape(parameter['in'])}: <code>${escape(parameter['name'])}</code> ${escape(parameter['description'] ?? '')}</p>`,
    ),
    body ? `<p>Body: ${contentLinks(body['content'])}</p>` : '',
    `<table><tr><th>Status</th><th></th><th>Content</th></tr>${responses.join('')}</table></div></details>`,
  ].join('\n');
}

function contentLinks(content: unknown): string {
  return Object.entries((content ?? {}) as Readonly<Record<string, { schema?: { $ref?: string } }>>)
    .map(([type, { schema }]) => {
      if (!schema?.$ref) return `<code>${escape(type)}</code>${inlineSchema(schema)}`;
      const name = escape(schema.$ref.split('/').at(-1));
      return `<code>${escape(type)}</code> <a href="#${name}">${name}</a>`;
    })
    .join('<br>');
}

/** JSON of an unnamed schema with members; empty for other schemas. */
const inlineSchema = (schema: Json | undefined): string =>
  schema?.['properties'] ? `<pre>${escape(JSON.stringify(schema, null, 2))}</pre>` : '';

function schemaSection(name: string, schema: Json): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Json);
  const required = (schema['required'] ?? []) as readonly string[];
  const rows = properties.map(([key, value]) => {
    const member = value as Json;
    const mark = required.includes(key) ? ' (required)' : '';
    return `<tr><td><code>${escape(key)}</code>${mark}</td><td>${escape(member['description'] ?? '')}</td></tr>`;
  });
  return [
    `<details id="${escape(name)}"><summary><code>${escape(name)}</code></summary><div>`,
    rows.length > 0 ? `<table>${rows.join('')}</table>` : '',
    `<pre>${escape(JSON.stringify(schema, null, 2))}</pre></div></details>`,
  ].join('\n');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escape = (value: unknown): string =>
  String(value).replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
