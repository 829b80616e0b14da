// Searches a built site with the script of its search box: node search.js SITE QUERY...
// It prints a line for each query: the query, and the pages that are found, best first.
const fs = require("fs")
const path = require("path")
const vm = require("vm")

const [site, ...queries] = process.argv.slice(2)
const index = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"))
const workers = path.join(site, "assets/javascripts/workers")
const worker = fs.readdirSync(workers).find((name) => name.startsWith("search"))
const waiting = []
const self = { postMessage: (message) => waiting.shift()(message) }
vm.runInNewContext(fs.readFileSync(path.join(workers, worker), "utf8"), { self, Intl })
const ask = (message) =>
  new Promise((resolve) => {
    waiting.push(resolve)
    self.onmessage({ data: message })
  })

async function main() {
  await ask({ type: 0, data: index })
  for (const input of queries) {
    const { data } = await ask({ type: 2, data: { input } })
    console.log(JSON.stringify([input, ...data.items.map(({ id }) => index.items[id].location)]))
  }
}
main()
