import { printable } from '../../terminal/printable.ts';
import { table } from '../../terminal/table.ts';
import { wrap } from '../../terminal/text.ts';
import type { Run } from '../context.ts';

export const surfaces: Run = async ({ source, flags, look, print, printJson }) => {
  const { document, text } = await source.surfaces();
  if (flags.json) return printJson(text);
  const described = (rows: readonly (readonly [string, string])[]) =>
    rows.flatMap(([name, description]) => [
      look.paint('strong', printable(name)),
      ...wrap(printable(description), look.width - 2, '').map((line) => `  ${line}`),
    ]);
  print([
    look.paint('dim', 'SURFACES'),
    ...described(
      document.surfaces.map(({ name, description, time, columns }) => [
        name,
        `${description} (${columns} columns, ordered by ${time})`,
      ]),
    ),
    '',
    look.paint('dim', 'QUESTIONS'),
    ...described(
      document.questions.map(({ name, description, parameters }) => [
        `${name}${namesIn(parameters)
          .map((one) => ` [${one}]`)
          .join('')}`,
        description,
      ]),
    ),
  ]);
};

/** Property names of a JSON Schema. */
const namesIn = (schema: object): string[] =>
  Object.keys((schema as { readonly properties?: object }).properties ?? {});

export const schema: Run = async ({ source, word, flags, look, print, printJson }) => {
  const { document, text } = await source.schema(word);
  if (flags.json) return printJson(text);
  const { surface, description, time, key, columns } = document;
  print([
    ...wrap(printable(`${surface}: ${description}`), look.width, '  '),
    ...wrap(printable(`newest first by ${time}; unique by ${key.join(', ')}`), look.width, '  '),
    '',
    ...table(
      [
        { title: 'column' },
        { title: 'type' },
        { title: 'unit' },
        { title: 'provenance' },
        { title: 'null' },
        { title: 'description', least: 20 },
      ],
      columns.map((column) => [
        column.name,
        column.type,
        column.unit ?? '-',
        column.provenance,
        column.nullable ? 'yes' : 'no',
        column.description,
      ]),
      look,
    ),
  ]);
};
