/** Formats rows in two columns; the second is wrapped at `width` characters. */
export function formatTable(rows: readonly (readonly [string, string])[], width = 100): string[] {
  const leftWidth = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows.flatMap(([name, help]) => {
    const lines = [''];
    for (const word of help.split(' ')) {
      const last = lines.at(-1) ?? '';
      if (last !== '' && leftWidth + last.length + 1 + word.length > width) lines.push(word);
      else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
    }
    return lines.map((line, index) => `${(index === 0 ? `  ${name}` : '').padEnd(leftWidth)}${line}`);
  });
}
