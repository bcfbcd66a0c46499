/* Where each row of a list begins. */

/* One more than there are rows: the last is where the list ends. */
export function offsets(count: number, height: (index: number) => number): Float64Array {
  const tops = new Float64Array(count + 1);
  for (let i = 0; i < count; i++) tops[i + 1] = tops[i]! + height(i);
  return tops;
}

/* The row at a place; the nearest one if there is none. */
export function rowAt(tops: Float64Array, place: number): number {
  let low = 0;
  let high = Math.max(0, tops.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle]! <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}
