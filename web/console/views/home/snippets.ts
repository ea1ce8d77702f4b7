/** Programs that send a request to this host, as text. */

/** What a program has to know about the host. */
export interface Connection {
  /** Address of the host, without a path: `http://127.0.0.1:8080`. */
  readonly origin: string;
  /** Id of the model. */
  readonly model: string;
  readonly kind: 'generate' | 'embed' | 'rerank';
  /** Whether requests need the host's bearer token. */
  readonly needsKey: boolean;
}

export interface Snippet {
  readonly name: 'curl' | 'python' | 'typescript' | 'environment';
  readonly title: string;
  /** Language and purpose, for the name of the code's region. */
  readonly label: string;
  readonly code: string;
}

/** Environment variable of the snippets that has the bearer token. */
export const keyVariable = 'LATHE_TOKEN';

const prompt = 'Write a haiku about rivers.';

/** The snippets for a model. Only curl and the environment where it ranks, which OpenAI's libraries cannot request. */
export function makeSnippets(connection: Connection): readonly Snippet[] {
  const { kind } = connection;
  return [
    { name: 'curl', title: 'curl', label: 'Request with curl', code: curl(connection) },
    ...(kind === 'rerank'
      ? []
      : [
          {
            name: 'python',
            title: 'Python',
            label: 'Program in Python',
            code: python(connection, kind),
          } as const,
          {
            name: 'typescript',
            title: 'TypeScript',
            label: 'Program in TypeScript',
            code: typescript(connection, kind),
          } as const,
        ]),
    {
      name: 'environment',
      title: 'Your existing SDK',
      label: 'Environment variables',
      code: environment(connection),
    },
  ];
}

function curl({ origin, model, kind, needsKey }: Connection): string {
  const bodies = {
    generate: { model, messages: [{ role: 'user', content: prompt }] },
    embed: { model, input: prompt },
    rerank: { model, query: 'a river', documents: [prompt, 'Sand in the desert.'] },
  };
  const paths = { generate: 'chat/completions', embed: 'embeddings', rerank: 'rerank' };
  return [
    `curl ${origin}/v1/${paths[kind]} \\`,
    ...(needsKey ? [`  -H "Authorization: Bearer $${keyVariable}" \\`] : []),
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuote(JSON.stringify(bodies[kind], null, 2))}`,
  ].join('\n');
}

const python = ({ origin, model, needsKey }: Connection, kind: 'generate' | 'embed'): string =>
  [
    '# pip install openai',
    ...(needsKey ? ['import os', ''] : []),
    'from openai import OpenAI',
    '',
    'client = OpenAI(',
    `    base_url="${origin}/v1",`,
    needsKey
      ? `    api_key=os.environ["${keyVariable}"],`
      : '    api_key="none",  # the host needs no key; the library does',
    ')',
    ...(kind === 'generate'
      ? [
          'answer = client.chat.completions.create(',
          `    model=${JSON.stringify(model)},`,
          `    messages=[{"role": "user", "content": "${prompt}"}],`,
          ')',
          'print(answer.choices[0].message.content)',
        ]
      : [
          `answer = client.embeddings.create(model=${JSON.stringify(model)}, input="${prompt}")`,
          'print(answer.data[0].embedding)',
        ]),
  ].join('\n');

const typescript = ({ origin, model, needsKey }: Connection, kind: 'generate' | 'embed'): string =>
  [
    '// npm install openai',
    "import OpenAI from 'openai';",
    '',
    'const client = new OpenAI({',
    `  baseURL: '${origin}/v1',`,
    needsKey
      ? `  apiKey: process.env.${keyVariable},`
      : "  apiKey: 'none', // the host needs no key; the library does",
    '});',
    ...(kind === 'generate'
      ? [
          'const answer = await client.chat.completions.create({',
          `  model: ${JSON.stringify(model)},`,
          `  messages: [{ role: 'user', content: '${prompt}' }],`,
          '});',
          'console.log(answer.choices[0]?.message.content);',
        ]
      : [
          `const answer = await client.embeddings.create({ model: ${JSON.stringify(model)}, input: '${prompt}' });`,
          'console.log(answer.data[0]?.embedding);',
        ]),
  ].join('\n');

/** Variables that the libraries of OpenAI, Anthropic and Ollama read. */
function environment({ origin, needsKey }: Connection): string {
  const key = needsKey ? `"$${keyVariable}"` : 'none';
  return [
    '# OpenAI',
    `export OPENAI_BASE_URL=${origin}/v1`,
    `export OPENAI_API_KEY=${key}`,
    '# Anthropic',
    `export ANTHROPIC_BASE_URL=${origin}`,
    `export ANTHROPIC_API_KEY=${key}`,
    ...(needsKey ? [] : ['# Ollama', `export OLLAMA_HOST=${origin}`]),
  ].join('\n');
}

const shellQuote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
