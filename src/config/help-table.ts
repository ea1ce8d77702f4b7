/** Two columns, the second wrapped at `width`. */
export function table(rows: readonly (readonly [string, string])[], width = 100): string[] {
  const left = Math.max(...rows.map(([name]) => name.length)) + 4;
  return rows.flatMap(([name, help]) => {
    const lines = [''];
    for (const word of help.split(' ')) {
      const last = lines.at(-1) ?? '';
      if (last !== '' && left + last.length + 1 + word.length > width) lines.push(word);
      else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
    }
    return lines.map((line, index) => `${(index === 0 ? `  ${name}` : '').padEnd(left)}${line}`);
  });
}
