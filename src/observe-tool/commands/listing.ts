import { printable } from '../../terminal/printable.ts';
import { table } from '../../terminal/table.ts';
import { wrapText } from '../../terminal/text.ts';
import type { CommandHandler } from '../command-context.ts';

export const surfaces: CommandHandler = async ({ source, flags, style, print, printJson }) => {
  const { document, text } = await source.surfaces();
  if (flags.json) return printJson(text);
  const describeRows = (rows: readonly (readonly [string, string])[]) =>
    rows.flatMap(([name, description]) => [
      style.paint('strong', printable(name)),
      ...wrapText(printable(description), style.width - 2, '').map((line) => `  ${line}`),
    ]);
  print([
    style.paint('dim', 'SURFACES'),
    ...describeRows(
      document.surfaces.map(({ name, description, time, columns }) => [
        name,
        `${description} (${columns} columns, ordered by ${time})`,
      ]),
    ),
    '',
    style.paint('dim', 'QUESTIONS'),
    ...describeRows(
      document.questions.map(({ name, description, parameters }) => [
        `${name}${propertyNames(parameters)
          .map((one) => ` [${one}]`)
          .join('')}`,
        description,
      ]),
    ),
  ]);
};

/** Property names of a JSON Schema. */
const propertyNames = (schema: object): string[] =>
  Object.keys((schema as { readonly properties?: object }).properties ?? {});

export const schema: CommandHandler = async ({ source, argument, flags, style, print, printJson }) => {
  const { document, text } = await source.schema(argument);
  if (flags.json) return printJson(text);
  const { surface, description, time, key, columns } = document;
  print([
    ...wrapText(printable(`${surface}: ${description}`), style.width, '  '),
    ...wrapText(printable(`newest first by ${time}; unique by ${key.join(', ')}`), style.width, '  '),
    '',
    ...table(
      [
        { title: 'column' },
        { title: 'type' },
        { title: 'unit' },
        { title: 'provenance' },
        { title: 'null' },
        { title: 'description', minWidth: 20 },
      ],
      columns.map((column) => [
        column.name,
        column.type,
        column.unit ?? '-',
        column.provenance,
        column.nullable ? 'yes' : 'no',
        column.description,
      ]),
      style,
    ),
  ]);
};
